"""The table of the console's pages: routes, rights and navigation are made from it (D133)."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from app.console.account_changes import (
    AccountDeletion,
    AccountPlan,
    AccountReset,
    AccountResumption,
    AccountSuspension,
)
from app.console.accounts import AccountCreation, AccountList, AccountPage
from app.console.actions import ActionList
from app.console.audit import AuditExport, AuditPage, AuditReport, AuditVerify
from app.console.audit_tasks import AuditFile, AuditTaskPage
from app.console.domains import DomainActivation, DomainList, DomainPage, DomainSuspension
from app.console.entrance import Rights
from app.console.key_changes import KeyCreation, KeyRevocation, KeyRotation
from app.console.keys import KeyList, KeyPage, KeySearch
from app.console.loads import LoadList, LoadPage
from app.console.look_ups import LookUp
from app.console.overview import Overview
from app.console.people import PeopleList, SessionEnd, SignIn, SignOut, SignOutEverywhere
from app.console.plans import PlanChange, PlanCreation, PlanDeletion, PlanList, PlanPage
from app.console.register_actions import (
    RegisterDrop,
    RegisterPurge,
    RegisterRollback,
    RegisterUndrop,
    TaskPage,
)
from app.console.registers import RegisterList, RegisterPage
from app.console.rendering import ROOT, ConsoleAsset, MenuItem
from app.console.roles import Right
from app.console.usage import UsagePage


class Page(NamedTuple):
    """A path, the resource that answers it, and the right that each of its methods needs."""

    path: str
    resource: type[Any]
    """Takes Services through `__init__`."""
    rights: Rights
    menu: str = ""
    """Its title in the navigation; empty if it is not there."""


_OPEN: Rights = {"GET": None}
_READ: Rights = {"GET": Right.READ}
_ASK: Rights = {"GET": Right.READ, "POST": Right.READ}
"""A form that changes nothing; it is sent with POST to keep what it says out of URLs."""
_CHANGE: Rights = {"GET": Right.CHANGE, "POST": Right.CHANGE}
_AUDIT: Rights = {"GET": Right.AUDIT, "POST": Right.AUDIT}

PAGES: tuple[Page, ...] = (
    Page(ROOT, Overview, _READ, "Overview"),
    Page(f"{ROOT}/registers", RegisterList, _READ, "Registers"),
    Page(f"{ROOT}/registers/{{name}}", RegisterPage, _READ),
    Page(f"{ROOT}/registers/{{name}}/rollback/{{load_id}}", RegisterRollback, _CHANGE),
    Page(f"{ROOT}/registers/{{name}}/drop", RegisterDrop, _CHANGE),
    Page(f"{ROOT}/registers/{{name}}/undrop", RegisterUndrop, _CHANGE),
    Page(f"{ROOT}/registers/{{name}}/purge", RegisterPurge, _CHANGE),
    Page(f"{ROOT}/tasks/{{task_id}}", TaskPage, _READ),
    Page(f"{ROOT}/loads", LoadList, _READ, "Loads"),
    Page(f"{ROOT}/loads/{{load_id}}", LoadPage, _READ),
    Page(f"{ROOT}/look-up", LookUp, _ASK, "Look up"),
    Page(f"{ROOT}/accounts", AccountList, _READ, "Accounts"),
    # NOTE: before the page of an account, whose tag always has six characters.
    Page(f"{ROOT}/accounts/new", AccountCreation, _CHANGE),
    Page(f"{ROOT}/accounts/{{tag}}", AccountPage, _READ),
    Page(f"{ROOT}/accounts/{{tag}}/suspend", AccountSuspension, _CHANGE),
    Page(f"{ROOT}/accounts/{{tag}}/resume", AccountResumption, _CHANGE),
    Page(f"{ROOT}/accounts/{{tag}}/plan", AccountPlan, _CHANGE),
    Page(f"{ROOT}/accounts/{{tag}}/reset", AccountReset, _CHANGE),
    Page(f"{ROOT}/accounts/{{tag}}/delete", AccountDeletion, _CHANGE),
    Page(f"{ROOT}/accounts/{{tag}}/keys/new", KeyCreation, _CHANGE),
    Page(f"{ROOT}/keys", KeyList, _READ, "Keys"),
    # NOTE: before the page of a key, whose id always has eight characters.
    Page(f"{ROOT}/keys/find", KeySearch, _ASK),
    Page(f"{ROOT}/keys/{{key_id}}", KeyPage, _READ),
    Page(f"{ROOT}/keys/{{key_id}}/rotate", KeyRotation, _CHANGE),
    Page(f"{ROOT}/keys/{{key_id}}/revoke", KeyRevocation, _CHANGE),
    Page(f"{ROOT}/plans", PlanList, _READ, "Plans"),
    # NOTE: no plan has this path, whatever its name.
    Page(f"{ROOT}/plans/new", PlanCreation, _CHANGE),
    Page(f"{ROOT}/plans/{{plan}}", PlanPage, _READ),
    Page(f"{ROOT}/plans/{{plan}}/change", PlanChange, _CHANGE),
    Page(f"{ROOT}/plans/{{plan}}/delete", PlanDeletion, _CHANGE),
    Page(f"{ROOT}/domains", DomainList, _READ, "Domains"),
    Page(f"{ROOT}/domains/{{domain_id}}", DomainPage, _READ),
    Page(f"{ROOT}/domains/{{domain_id}}/suspend", DomainSuspension, _CHANGE),
    Page(f"{ROOT}/domains/{{domain_id}}/activate", DomainActivation, _CHANGE),
    Page(f"{ROOT}/usage", UsagePage, _READ, "Usage"),
    Page(f"{ROOT}/audit", AuditPage, _AUDIT, "Audit"),
    Page(f"{ROOT}/audit/export", AuditExport, _AUDIT),
    Page(f"{ROOT}/audit/report", AuditReport, _AUDIT),
    Page(f"{ROOT}/audit/verify", AuditVerify, _AUDIT),
    Page(f"{ROOT}/audit/tasks/{{audit_task}}", AuditTaskPage, {"GET": Right.AUDIT}),
    Page(f"{ROOT}/audit/tasks/{{audit_task}}/{{file}}", AuditFile, {"GET": Right.AUDIT}),
    Page(f"{ROOT}/people", PeopleList, _READ, "People"),
    Page(f"{ROOT}/people/{{session_id}}/end", SessionEnd, _CHANGE),
    Page(f"{ROOT}/actions", ActionList, _READ, "Actions"),
    Page(f"{ROOT}/sign-out", SignOut, {"POST": Right.READ}),
    Page(f"{ROOT}/sign-out/everywhere", SignOutEverywhere, _ASK),
    Page(f"{ROOT}/sign-in/{{token}}", SignIn, {"GET": None, "POST": None}),
    Page(f"{ROOT}/assets/{{asset}}", ConsoleAsset, _OPEN),
)


def menu() -> Iterator[MenuItem]:
    """Yield the pages of the navigation; each is shown to those who may read it."""
    for page in PAGES:
        right = page.rights.get("GET")
        if page.menu and right is not None:
            yield MenuItem(page.menu, page.path, right)
