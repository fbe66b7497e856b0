"""The record of operators' actions in the main database: who changed what, before, after (D130).

An action is recorded in the transaction that makes the change, so that neither exists without the
other. Rows are never removed, and only changed while an action goes on (`complete`).
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import peewee

from app import clock
from app.config import sudo_user
from app.errors import without_keys
from app.storage.engine import Engine, Row
from app.storage.file_lock import user_name

NAME_CHARACTERS_MAX = 100
Via = Literal["command", "console"]


class Actor(msgspec.Struct, frozen=True):
    """A person, as the record of actions names them."""

    name: str
    """The login of a command, or the name in the console."""
    via: Via
    sudo_user: str | None = None
    """Who ran a command with sudo. SEC: the environment says so, which its user can change."""


class Session(NamedTuple):
    """Who runs this process, as a record of the audit trail has it; None for what is not known.

    `login` is the user of a process without a session, as of a timer or in a container.
    """

    login: str | None
    sudo_user: str | None


def of_command() -> Actor:
    """Return who runs this process.

    The name is that of the login, which stays the same after `sudo` and `su`. A process without a
    login, as in a container or a unit of systemd, has the name of its user.
    """
    by = sudo_user()
    return Actor(_checked(login() or user_name()), "command", _checked(by) if by else None)


def login() -> str | None:
    """Return the user of the session that this process belongs to; None without a session."""
    with suppress(OSError):
        return os.getlogin()
    return None


def session() -> Session:
    """Return the login of this process, or else its user, and the user of sudo.

    Names are cut to 100 characters, and bytes that are not UTF-8 are escaped: the environment can
    hold any number of any bytes.
    """
    return Session(*(each and _encodable(each) for each in (login() or user_name(), sudo_user())))


def _encodable(name: str) -> str:
    return name[:NAME_CHARACTERS_MAX].encode(errors="backslashreplace").decode()


def _checked(name: str) -> str:
    """Return a name that can be stored: the environment can hold any bytes, and any number."""
    printable = "".join(each if each.isprintable() else "?" for each in name)
    return printable[:NAME_CHARACTERS_MAX]


Name = Literal[
    "accounts.create",
    "accounts.set-plan",
    "accounts.suspend",
    "accounts.resume",
    "accounts.delete",
    "plans.set",
    "plans.delete",
    "keys.create",
    "keys.revoke",
    "keys.rotate",
    "limits.reset",
    "domains.suspend",
    "domains.activate",
    "imports.load",
    "imports.accept",
    "imports.reject",
    "imports.rollback",
    "imports.drop",
    "imports.undrop",
    "imports.purge",
    "watches.import",
    "watches.accept",
    "backups.restore",
    "answers.unknown",
    "clock.accept",
    "audit.prune",
    "audit.acknowledge",
    "audit.off",
    "audit.forget",
    "console.link",
    "console.sign-in",
    "console.end",
]
ACTIONS: tuple[Name, ...] = get_args(Name)
"""All actions, in the order of the table in deploy/docs/files.md."""
GROUPS: tuple[str, ...] = tuple(dict.fromkeys(name.partition(".")[0] for name in ACTIONS))
"""The groups of actions, such as `keys`."""
SubjectKind = Literal[
    "account", "plan", "key", "domain", "register", "backup", "person", "host", "database"
]
State = Mapping[str, object]
"""Members of the subject of an action, as a JSON object. It holds no secrets."""
_CHANGE_LOCK = 0x766661  # Postgres locks by numbers; any number serves.
_MISSING = object()


class Action(peewee.Model):
    """A row of the record. `at` is in Unix seconds, `before` and `after` are JSON objects."""

    id = peewee.AutoField()
    at = peewee.BigIntegerField()
    actor = peewee.CharField(NAME_CHARACTERS_MAX)
    sudo_user = peewee.CharField(NAME_CHARACTERS_MAX, null=True)
    via = peewee.CharField(10)
    action = peewee.CharField(30)
    subject_kind = peewee.CharField(10)
    subject = peewee.CharField(255)
    account = peewee.CharField(100, null=True)
    before = peewee.TextField(null=True)
    after = peewee.TextField(null=True)

    class Meta:
        table_name = "action"


class Subject(NamedTuple):
    """What an action changes."""

    kind: SubjectKind
    name: str
    """A name, or the id of a key."""
    account: str | None = None
    """The name of the account that it belongs to."""


class Recorded(NamedTuple):
    """An action of the record."""

    id: int
    at: int
    """Unix seconds."""
    actor: str
    sudo_user: str | None
    via: str
    action: str
    subject_kind: str
    subject: str
    account: str | None
    before: dict[str, Any] | None
    """The members that the action changed or removed; None if there was nothing before."""
    after: dict[str, Any] | None
    """The members that the action changed or added; None if it left nothing."""


class Member(NamedTuple):
    """The change of one member of a subject."""

    name: str
    values: tuple[Any, ...]
    """Before and after; one value if the action added or removed the member."""
    is_removed: bool


class Criteria(NamedTuple):
    """Which actions to list; None for all."""

    by: str | None = None
    """The name of the actor, or of the user of sudo."""
    action: str | None = None
    """An action, or the group of several, such as `keys`."""
    subject: str | None = None
    account: str | None = None
    since: int | None = None
    """Unix seconds of the first moment."""
    until: int | None = None
    """Unix seconds of the first moment that is too late."""


@contextmanager
def changing(engine: Engine) -> Iterator[None]:
    """Begin the transaction of an action. Those of other operators wait for its end.

    So `before` is right even if two operators change one row at once.
    """
    with engine.atomic():
        engine.take_advisory_lock(_CHANGE_LOCK)
        yield


def record(
    engine: Engine,
    actor: Actor | None,
    action: Name,
    subject: Subject,
    before: State | None,
    after: State | None,
) -> int | None:
    """Record an action, within the transaction that makes the change; return its number.

    Args:
        actor: who does it; None for the user of this process.
        before: all members before, as the transaction read them; None if there was nothing.
        after: all members after; None if nothing is left.

    Only the members that differ are stored. If none differ, nothing is recorded; return None then.
    """
    row = row_of(actor, action, subject, before, after)
    return None if row is None else int(Action.insert(**row).execute(engine))


def complete(engine: Engine, number: int | None, after: State) -> None:
    """Note how far an action has come that takes several transactions, within each of them.

    Args:
        number: what `record` returned.
    """
    Action.update(after=_json(after, None)).where(Action.id == number).execute(engine)


def row_of(
    actor: Actor | None,
    action: Name,
    subject: Subject,
    before: State | None,
    after: State | None,
) -> dict[str, object] | None:
    """Return the row that `record` inserts, without its number; None if nothing differs."""
    if before == after:
        return None
    who = actor or of_command()
    return {
        "at": clock.now(),
        "actor": without_keys(who.name),
        "sudo_user": who.sudo_user and without_keys(who.sudo_user),
        "via": who.via,
        "action": action,
        "subject_kind": subject.kind,
        "subject": without_keys(subject.name),
        "account": subject.account and without_keys(subject.account),
        "before": _json(before, after),
        "after": _json(after, before),
    }


def list_actions(
    engine: Engine, criteria: Criteria | None = None, limit: int | None = None
) -> list[Recorded]:
    """Return the actions that meet all criteria, latest first.

    Args:
        limit: return at most this many; all if None.
    """
    query = selected(criteria or Criteria()).order_by(Action.id.desc()).limit(limit)
    return [recorded(row) for row in query.execute(engine)]


def selected(criteria: Criteria) -> "peewee.ModelSelect[Action]":
    """Return a query for the rows of the actions that meet all criteria; `recorded` reads them."""
    query = Action.select().tuples()
    for condition in _conditions(criteria):
        query = query.where(condition)
    return query


def _conditions(criteria: Criteria) -> Iterator[peewee.Expression]:
    if criteria.by is not None:
        yield (Action.actor == criteria.by) | (Action.sudo_user == criteria.by)
    if criteria.action is not None:
        group = f"{criteria.action}."
        names = [name for name in ACTIONS if name == criteria.action or name.startswith(group)]
        yield Action.action.in_(names)
    if criteria.subject is not None:
        yield Action.subject == criteria.subject
    if criteria.account is not None:
        yield Action.account == criteria.account
    if criteria.since is not None:
        yield Action.at >= criteria.since
    if criteria.until is not None:
        yield Action.at < criteria.until


def _json(state: State | None, other: State | None) -> str | None:
    """Return the members that differ from another state as JSON; None for no state."""
    if state is None:
        return None
    differs = {
        name: value
        for name, value in state.items()
        if other is None or other.get(name, _MISSING) != value
    }
    return without_keys(msgspec.json.encode(differs).decode())


def recorded(row: Row) -> Recorded:
    """Return the action of a row."""
    *others, before, after = row
    states = (text and msgspec.json.decode(text) for text in (before, after))
    return Recorded(*others, *states)


def members_of(action: Recorded) -> list[Member]:
    """Return the members that an action changed, without those that were and stay empty.

    The rows that a register holds are called `rows`, because only loads are held.
    """
    states = [action.before or {}, action.after or {}]
    members = []
    for name in states[0] | states[1]:
        values = tuple(state[name] for state in states if name in state)
        if values not in ((None,), ([],)):
            is_of_rows = name == "held" and action.subject_kind == "register"
            members.append(Member("rows" if is_of_rows else name, values, name not in states[1]))
    return members
