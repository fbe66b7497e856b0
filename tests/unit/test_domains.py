"""Domains in the database: types and errors of the domain, not of HTTP."""

import pytest

from app.accounts.administration import create_account
from app.domains.repository import DomainExists, DomainQuotaReached, Domains, HeldDomain
from tests.conftest import STORAGE

pytestmark = STORAGE


@pytest.fixture
def account_id(world):
    """The number of an account without domains."""
    return create_account(world.engine, "zoe").id


def test_a_created_domain_is_the_one_that_is_found(world, account_id):
    """A created domain is active, and its time is in Unix seconds."""
    domains = Domains(world.engine)
    created = domains.create_domain(account_id, "a.example", 2)
    assert created == HeldDomain(created.id, "a.example", "active", created.created_at)
    assert isinstance(created.created_at, int)
    assert domains.find_domain(account_id, "a.example") == created
    assert domains.list_domains(account_id) == [created]


def test_a_name_is_held_once(world, account_id):
    """A name that exists is its own error, even when the quota is reached."""
    domains = Domains(world.engine)
    domains.create_domain(account_id, "a.example", 1)
    with pytest.raises(DomainExists):
        domains.create_domain(account_id, "a.example", 1)
    with pytest.raises(DomainQuotaReached):
        domains.create_domain(account_id, "b.example", 1)
    assert domains.count_domains(account_id) == 1


def test_the_status_of_no_domain_is_nothing(world, account_id):
    """Setting the status of an unknown domain finds nothing, and creates nothing."""
    domains = Domains(world.engine)
    assert domains.set_status(account_id, "a.example", "suspended") is None
    created = domains.create_domain(account_id, "a.example", 1)
    suspended = domains.set_status(account_id, "a.example", "suspended")
    assert suspended == created._replace(status="suspended")
