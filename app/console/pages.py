"""The table of the console's pages, from which routes, rights and navigation are made.

The tests of all roles read it, too, so that no page is forgotten in one of them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from app.console import (
    accounts,
    actions,
    audit,
    changed_answers,
    domains,
    keys,
    loads,
    look_up_page,
    overview,
    plans,
    register_changes,
    registers,
    sign_in,
    usage,
    watches,
)
from app.console.entrance import Rights
from app.console.rendering import ROOT, MenuItem
from app.console.resources import ConsoleAsset, Resource
from app.settings.roles import Right


class Page(NamedTuple):
    """A path, the resource that answers it, and the right that each of its methods needs."""

    below_root: str
    resource: type[Resource]
    rights: Rights
    menu: str = ""
    """The title in the navigation; empty for a page that is not there."""

    @property
    def path(self) -> str:
        """The path, as Falcon takes it."""
        return f"{ROOT}{self.below_root}"


_OPEN: Rights = {"GET": None}
_READ: Rights = {"GET": Right.READ}
_LOOK_UP: Rights = {"GET": Right.LOOK_UP, "POST": Right.LOOK_UP}
_ASK: Rights = {"GET": Right.READ, "POST": Right.READ}
"""A form that changes nothing, sent with POST to keep its values out of URLs."""
_CHANGE: Rights = {"GET": Right.CHANGE, "POST": Right.CHANGE}
_RESULT: Rights = {"GET": Right.CHANGE}
"""Plates and answers that an operator has asked for."""
_AUDIT: Rights = {"GET": Right.AUDIT, "POST": Right.AUDIT}

PAGES: tuple[Page, ...] = (
    Page("", overview.Overview, _READ, "Overview"),
    Page("/registers", registers.RegisterList, _READ, "Registers"),
    Page("/registers/{name}", registers.RegisterPage, _READ),
    Page("/registers/{name}/rollback/{load_id}", register_changes.RegisterRollback, _CHANGE),
    Page("/registers/{name}/accept/{load_id}", register_changes.RegisterAcceptance, _CHANGE),
    Page("/registers/{name}/reject/{load_id}", register_changes.RegisterRejection, _CHANGE),
    Page("/registers/{name}/drop", register_changes.RegisterDrop, _CHANGE),
    Page("/registers/{name}/undrop", register_changes.RegisterUndrop, _CHANGE),
    Page("/registers/{name}/purge", register_changes.RegisterPurge, _CHANGE),
    Page("/tasks/{task_id}", register_changes.TaskPage, _READ),
    Page("/loads", loads.LoadList, _READ, "Loads"),
    Page("/loads/{load_id}", loads.LoadPage, _READ),
    Page("/loads/{load_id}/changed", changed_answers.ChangedAnswers, _CHANGE),
    # NOTE: no load has this number.
    Page("/loads/changed/{audit_task}", changed_answers.ChangedAnswersList, _RESULT),
    Page("/loads/changed/{audit_task}/{file}", changed_answers.ChangedAnswersFile, _RESULT),
    Page("/look-up", look_up_page.LookUpPage, _LOOK_UP, "Look up"),
    Page("/accounts", accounts.AccountList, _READ, "Accounts"),
    # NOTE: before the page of an account, whose tag always has six characters.
    Page("/accounts/new", accounts.AccountCreation, _CHANGE),
    Page("/accounts/{tag}", accounts.AccountPage, _READ),
    Page("/accounts/{tag}/suspend", accounts.AccountSuspension, _CHANGE),
    Page("/accounts/{tag}/resume", accounts.AccountResumption, _CHANGE),
    Page("/accounts/{tag}/plan", accounts.AccountPlan, _CHANGE),
    Page("/accounts/{tag}/reset", accounts.AccountReset, _CHANGE),
    Page("/accounts/{tag}/delete", accounts.AccountDeletion, _CHANGE),
    Page("/accounts/{tag}/keys/new", keys.KeyCreation, _CHANGE),
    Page("/keys", keys.KeyList, _READ, "Keys"),
    # NOTE: before the page of a key, whose id always has eight characters.
    Page("/keys/find", keys.KeySearch, _ASK),
    Page("/keys/{key_id}", keys.KeyPage, _READ),
    Page("/keys/{key_id}/rotate", keys.KeyRotation, _CHANGE),
    Page("/keys/{key_id}/revoke", keys.KeyRevocation, _CHANGE),
    Page("/plans", plans.PlanList, _READ, "Plans"),
    # NOTE: no plan has this path, whatever its name.
    Page("/plans/new", plans.PlanCreation, _CHANGE),
    Page("/plans/{plan}", plans.PlanPage, _READ),
    Page("/plans/{plan}/change", plans.PlanChange, _CHANGE),
    Page("/plans/{plan}/delete", plans.PlanDeletion, _CHANGE),
    Page("/domains", domains.DomainList, _READ, "Domains"),
    Page("/domains/{domain_id}", domains.DomainPage, _READ),
    Page("/domains/{domain_id}/suspend", domains.DomainSuspension, _CHANGE),
    Page("/domains/{domain_id}/activate", domains.DomainActivation, _CHANGE),
    Page("/watches", watches.WatchedAccounts, _READ, "Watches"),
    Page("/watches/{tag}", watches.AccountWatches, _CHANGE),
    Page("/watches/{tag}/events", watches.AccountEvents, _CHANGE),
    Page("/watches/{tag}/accept", watches.HeldAcceptance, _CHANGE),
    # NOTE: no account has this tag.
    Page("/watches/files/{audit_task}", watches.WatchFilePage, _RESULT),
    Page("/watches/files/{audit_task}/{file}", watches.WatchFile, _RESULT),
    Page("/usage", usage.UsagePage, _READ, "Usage"),
    Page("/audit", audit.AuditPage, _AUDIT, "Audit"),
    Page("/audit/export", audit.AuditExport, _AUDIT),
    Page("/audit/report", audit.AuditReport, _AUDIT),
    Page("/audit/plate", audit.AuditPlate, _AUDIT),
    Page("/audit/verify", audit.AuditVerify, _AUDIT),
    Page("/audit/tasks/{audit_task}", audit.AuditTaskPage, {"GET": Right.AUDIT}),
    Page("/audit/tasks/{audit_task}/{file}", audit.AuditFile, {"GET": Right.AUDIT}),
    Page("/people", sign_in.PeopleList, _READ, "People"),
    Page("/people/{session_id}/end", sign_in.SessionEnd, _CHANGE),
    Page("/actions", actions.ActionList, _READ, "Actions"),
    Page("/sign-out", sign_in.SignOut, {"POST": Right.LOOK_UP}),
    Page("/sign-out/everywhere", sign_in.SignOutEverywhere, _LOOK_UP),
    # NOTE: no link has this token.
    Page("/sign-in/proxy", sign_in.ProxySignIn, {"GET": None, "POST": None}),
    Page("/sign-in/{token}", sign_in.SignIn, {"GET": None, "POST": None}),
    Page("/assets/{asset}", ConsoleAsset, _OPEN),
)


MENU: Mapping[str, Sequence[str]] = {
    "": ("Overview", "Look up"),
    "Data": ("Registers", "Loads"),
    "Customers": ("Accounts", "Keys", "Plans", "Domains", "Watches", "Usage"),
    "Oversight": ("Audit", "People", "Actions"),
}
"""The groups of the navigation, with the titles of their pages."""


def menu() -> Iterator[MenuItem]:
    """Yield the pages of the navigation by group; each is shown to those who may read it."""
    pages = {page.menu: page for page in PAGES if page.menu}
    for group, titles in MENU.items():
        for title in titles:
            right = pages[title].rights["GET"]
            if right is not None:
                yield MenuItem(title, pages[title].path, right, group)
