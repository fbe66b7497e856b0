"""Restarts under load, as systemd does them: the socket stays open."""

import pytest

from app.accounts.administration import set_plan
from app.storage.engine import close_quietly
from tests.system.creators import Creators
from tests.system.site import behind_site

RESTARTS = 30
ENOUGH = 1_000_000


@pytest.mark.system_long
def test_no_request_fails_over_30_restarts(serve, world, listener):
    """Requests of eight clients behind nginx wait during a restart."""
    limits = {"window_seconds": 60, "bulk_max": 1, "domains_max": ENOUGH}
    set_plan(world.engine, "standard", requests=ENOUGH, **limits)
    close_quietly(world.engine)
    bind = f"unix:{listener.getsockname()}"
    service = serve(bind=bind, listener=listener)
    with behind_site(bind, world.directory) as site, Creators(site, [world.alice_key]) as creators:
        for _ in range(RESTARTS):
            creators.wait_for(8)
            assert service.stop() == 0
            service = serve(bind=bind, listener=listener)
    assert creators.statuses("POST") == {201}
    assert creators.statuses("GET") == {200}
    assert len(creators.outcomes) > 2 * 8 * RESTARTS
