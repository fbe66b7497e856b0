"""The page of operators' actions."""

from collections.abc import Mapping, Sequence
from datetime import tzinfo

import falcon
import peewee

from app import clock
from app.accounts.models import Account, ApiKey, Plan
from app.actions import (
    ACTIONS,
    GROUPS,
    Action,
    Criteria,
    Member,
    Recorded,
    SubjectKind,
    members_of,
    recorded,
    selected,
)
from app.console.listing import Listing, Permitted, is_day
from app.console.plans import segment_of
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import Resource, view
from app.errors import without_keys
from app.registers.history import RegisterLoad
from app.storage.engine import Engine

# In the record, later actions have higher numbers.
_SORTABLE = {
    "when": Action.id,
    "who": Action.actor,
    "action": Action.action,
    "subject": Action.subject,
}
_MEMBERS_TOLD_MAX = 3
_CHOICES = tuple(sorted({*ACTIONS, *GROUPS}))
_FILTERS: Mapping[str, Permitted] = {
    "by": (),
    "action": _CHOICES,
    "subject": (),
    "account": (),
    "from": is_day,
    "to": is_day,
}
Subjects = Mapping[tuple[SubjectKind, str], tuple[str, ...]]
"""The paths of the pages of subjects that exist, as segments, by kind and name."""


class ActionList(Resource):
    """What operators changed, by command and in the console."""

    @view("actions.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values:
        """GET /console/actions. Parameters: those of `verifyd actions list`, `sort`, `page`.

        `from` and `to` are days in the operator's time zone.
        """
        listing = Listing(req, _SORTABLE, Action.id, _FILTERS, default="-when")
        for name in ("by", "subject", "account"):
            # SEC: no link of the list may hold a key; the record has none either.
            listing.filters[name] = without_keys(listing.filters[name])
        criteria = _criteria(listing.filters, self.config.timezone)
        actions = [recorded(row) for row in listing.rows(selected(criteria), self.engine)]
        return {
            "listing": listing,
            "actions": [
                (action, members, in_words(members))
                for action in actions
                for members in [members_of(action)]
            ],
            "subjects": _subjects(self.engine, actions, listing.filters["account"]),
        }


def _criteria(filters: Mapping[str, str], zone: tzinfo) -> Criteria:
    first, last = (clock.parse_iso_date(filters[name]) for name in ("from", "to"))
    return Criteria(
        by=filters["by"] or None,
        action=filters["action"] or None,
        subject=filters["subject"] or None,
        account=filters["account"] or None,
        since=None if first is None else clock.start_of(first, zone),
        until=None if last is None else clock.seconds_of(last, zone).stop,
    )


def _subjects(engine: Engine, actions: Sequence[Recorded], account: str) -> Subjects:
    """Return the pages of subjects, of their accounts, and of one more account."""

    def named(kind: SubjectKind) -> list[str]:
        return [action.subject for action in actions if action.subject_kind == kind]

    owners = [action.account for action in actions if action.account]
    register = RegisterLoad.register
    queries: Mapping[SubjectKind, peewee.Query] = {
        "account": Account.select(Account.name, Account.tag).where(
            Account.name.in_([*named("account"), *owners, account])
        ),
        "key": ApiKey.select(ApiKey.id, ApiKey.id).where(ApiKey.id.in_(named("key"))),
        "plan": Plan.select(Plan.name, Plan.name).where(Plan.name.in_(named("plan"))),
        "register": RegisterLoad.select(register, register)
        .where(register.in_(named("register")))
        .distinct(),
    }
    return {
        (kind, name): (f"{kind}s", segment_of(segment) if kind == "plan" else segment)
        for kind, query in queries.items()
        for name, segment in query.tuples().execute(engine)
    }


def in_words(members: Sequence[Member]) -> str:
    """Return what an action changed, such as `requests from 60 to 600`; not all of many members."""
    told = [_change_in_words(each) for each in members]
    more = len(told) - _MEMBERS_TOLD_MAX
    return ", ".join([*told[:_MEMBERS_TOLD_MAX], *([f"{more} more"] if more > 0 else [])])


def _change_in_words(member: Member) -> str:
    name, values = member.name.replace("_", " "), list(map(_value_in_words, member.values))
    if len(values) > 1:
        return f"{name} from {values[0]} to {values[1]}"
    return f"{name} {values[0]}{' removed' if member.is_removed else ''}"


def _value_in_words(value: object) -> str:
    if value in (None, "", []):
        return "none"
    if isinstance(value, list):
        return " and ".join(map(str, value)) if len(value) <= _MEMBERS_TOLD_MAX else f"{len(value)}"
    is_count = isinstance(value, int) and not isinstance(value, bool)
    return f"{value:,}" if is_count else str(value)
