"""Links that open the console, and the sessions that they open.

SEC: the database holds only the SHA-256 of the token of a link or session, so that nobody can sign
in with the content of the database or a backup.
"""

import hashlib
import secrets
from typing import Any, NamedTuple

import peewee

from app import clock
from app.accounts.models import NAME_CHARACTERS_MAX, require_text
from app.accounts.tokens import base62, random_base62
from app.actions import Actor, Subject, changing, record
from app.errors import OperatorError
from app.people.directory import EVERYBODY, Person, person_of
from app.settings.roles import RIGHTS, Right, Role
from app.storage.engine import Engine, PreparedOnPrimary, parameter

# Times in rows are Unix seconds.


class ConsoleLink(peewee.Model):
    """A link that opens one session."""

    token_hash = peewee.FixedCharField(64, primary_key=True)
    name = peewee.CharField(NAME_CHARACTERS_MAX)
    role = peewee.CharField(10)
    expires_at = peewee.BigIntegerField()
    used_at = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "console_link"


class ConsoleSession(peewee.Model):
    """A session of a person in the console."""

    id = peewee.FixedCharField(8, primary_key=True)
    """Random, so that no later session gets the id of one that a page still shows."""
    token_hash = peewee.FixedCharField(64)
    name = peewee.CharField(NAME_CHARACTERS_MAX)
    role = peewee.CharField(10)
    started_at = peewee.BigIntegerField()
    expires_at = peewee.BigIntegerField()
    """Moves on while the session is used; eight hours after its start at the latest."""

    class Meta:
        table_name = "console_session"


LINK_SECONDS = 600
SESSION_SECONDS = 8 * 3600
_USE_NOTED_SECONDS = 300
"""How often the use of a session is written at most: each commit makes workers ask for keys."""
TOKEN_CHARACTERS = 43
_TOKEN_BITS = 256
_ID_CHARACTERS = 8
_USED_LINKS_KEPT_SECONDS = 86_400
"""How long a used link is kept, so that its page can say when it was used."""


class Session(NamedTuple):
    """An open session."""

    id: str
    name: str
    role: Role
    started_at: int
    expires_at: int

    def may(self, right: Right) -> bool:
        """Tell whether the person has a right."""
        return right in RIGHTS[self.role]


class LinkRefused(Exception):
    """A link does not open a session; the message is a sentence for the person who followed it."""


_COLUMNS = tuple(getattr(ConsoleSession, name) for name in Session._fields)


def create_link(engine: Engine, name: str, role: Role) -> str:
    """Create a link for a person, and return its token.

    Raises OperatorError if the name is empty, too long or not printable, or stands for all people.
    """
    name = require_text("a person's name", name)
    if person_of(name) == EVERYBODY:
        raise OperatorError(f"{EVERYBODY} stands for all people: choose another name")
    token = _new_token()
    now = clock.now()
    with changing(engine):
        _remove_expired(engine, now)
        ConsoleLink.insert(
            token_hash=_hash(token), name=name, role=role, expires_at=now + LINK_SECONDS
        ).execute(engine)
        record(engine, None, "console.link", Subject("person", name), None, {"role": role})
    return token


def require_link(engine: Engine, token: str) -> ConsoleLink:
    """Return the link that has this token. Raises LinkRefused if it opens no session now."""
    if len(token) != TOKEN_CHARACTERS:
        raise LinkRefused(
            f"The link is not complete: its last part has {TOKEN_CHARACTERS} characters, "
            "and this one has another number. Copy the whole link."
        )
    link: ConsoleLink | None = (
        ConsoleLink.select().where(ConsoleLink.token_hash == _hash(token)).first(engine)
    )
    if link is None:
        raise LinkRefused("The link is unknown. It may be mistyped, withdrawn or too old.")
    if link.used_at is not None:
        raise LinkRefused(
            f"The link was used at {clock.iso_utc(link.used_at)}, and works only once. If that "
            "was not you, end that session."
        )
    if link.expires_at <= clock.now():
        raise LinkRefused(f"The link is older than {LINK_SECONDS // 60} minutes.")
    return link


def open_session(engine: Engine, token: str, *, idle_seconds: int = 0, former: str = "") -> str:
    """Use a link up, and return the token of the session that it opens.

    Of two requests that use the same link, one gets the session. Raises LinkRefused.

    Args:
        idle_seconds: the time without use after which the session ends; 0 for no such limit.
        former: the token of the browser's session until now, which ends.
    """
    now = clock.now()
    with changing(engine):
        link = require_link(engine, token)
        is_it = (ConsoleLink.token_hash == link.token_hash) & ConsoleLink.used_at.is_null()
        if not ConsoleLink.update(used_at=now).where(is_it).execute(engine):
            raise LinkRefused("The link was used just now, and works only once.")
        person = Person(link.name, Role(link.role))
        return _open(engine, person, "link", idle_seconds=idle_seconds, former=former)


def admit(engine: Engine, person: Person, *, idle_seconds: int = 0, former: str = "") -> str:
    """Open a session for a person whom the directory identified, and return its token.

    Args:
        idle_seconds: as for `open_session`, and `former`, too.
    """
    with changing(engine):
        return _open(engine, person, "directory", idle_seconds=idle_seconds, former=former)


def _open(engine: Engine, person: Person, by: str, *, idle_seconds: int, former: str) -> str:
    """Insert a session within a transaction, record that, and return its token."""
    now, token = clock.now(), _new_token()
    _remove_expired(engine, now)
    ConsoleSession.insert(
        id=random_base62(_ID_CHARACTERS),
        token_hash=_hash(token),
        name=person.name,
        role=person.role,
        started_at=now,
        expires_at=_end_of(now, now, idle_seconds),
    ).execute(engine)
    who, subject = Actor(person.name, "console"), Subject("person", person.name)
    _end(engine, ConsoleSession.token_hash == _hash(former), who)
    record(engine, who, "console.sign-in", subject, None, {"role": person.role, "by": by})
    return token


class Sessions:
    """Finds the session of a request, and notes its use.

    Args:
        idle_seconds: the time without use after which a session ends; 0 for no such limit.
    """

    def __init__(self, engine: Engine, idle_seconds: int) -> None:
        self._engine = engine
        self._idle_seconds = idle_seconds
        self._find = PreparedOnPrimary(
            engine,
            lambda: ConsoleSession.select(*_COLUMNS).where(
                (ConsoleSession.token_hash == parameter("token_hash"))
                & (ConsoleSession.expires_at > parameter("now"))
            ),
        )

    def find(self, token: str) -> Session | None:
        """Return the open session with this token, None if there is none.

        Raises peewee.PeeweeException if the database cannot answer.
        """
        if len(token) != TOKEN_CHARACTERS:
            return None
        row = self._find.row(token_hash=_hash(token), now=clock.now())
        return None if row is None else _session(row)

    def note_use(self, session: Session) -> None:
        """Let a session last longer because it is used, unless its use was written lately.

        Raises peewee.PeeweeException if the database cannot be written to.
        """
        end = _end_of(session.started_at, clock.now(), self._idle_seconds)
        if end - session.expires_at >= _USE_NOTED_SECONDS:
            is_it = ConsoleSession.id == session.id
            with self._engine.without_waiting():  # Look-ups would wait for this page.
                ConsoleSession.update(expires_at=end).where(is_it).execute(self._engine)


def list_sessions(engine: Engine) -> list[Session]:
    """Return the open sessions, the latest first."""
    is_open = ConsoleSession.expires_at > clock.now()
    query = ConsoleSession.select(*_COLUMNS).where(is_open)
    ordered = query.order_by(ConsoleSession.started_at.desc(), ConsoleSession.id)
    return [_session(row) for row in ordered.tuples().execute(engine)]


def find_session(engine: Engine, session_id: str) -> Session | None:
    """Return the open session with this id, None if there is none."""
    return next((each for each in list_sessions(engine) if each.id == session_id), None)


def end_session(engine: Engine, session_id: str, *, actor: Actor) -> None:
    """End a session, unless it has ended already."""
    with changing(engine):
        _end(engine, ConsoleSession.id == session_id, actor)


def end_sessions(
    engine: Engine, name: str | None = None, *, actor: Actor | None = None
) -> tuple[int, int]:
    """End all sessions and withdraw all unused links, or those of one person (`person_of`).

    Return how many sessions ended, and how many links were withdrawn.
    """
    now = clock.now()
    sessions = ConsoleSession.delete().where(ConsoleSession.expires_at > now)
    is_unused = ConsoleLink.used_at.is_null() & (ConsoleLink.expires_at > now)
    links = ConsoleLink.delete().where(is_unused)
    with changing(engine):
        _remove_expired(engine, now)
        if name is not None:
            sessions = sessions.where(_is_of(engine, ConsoleSession, name))
            links = links.where(_is_of(engine, ConsoleLink, name))
        ended = sessions.execute(engine), links.execute(engine)
        _record_end(engine, actor, name or EVERYBODY, *ended)
        return ended


def _is_of(engine: Engine, model: type[ConsoleLink | ConsoleSession], name: str) -> Any:
    """Return a condition for the rows of a person. SQLite folds the case of ASCII only."""
    found = model.select(model.name).distinct().tuples().execute(engine)
    return model.name.in_([each for (each,) in found if person_of(each) == person_of(name)])


def _end(engine: Engine, is_it: peewee.Expression, actor: Actor) -> None:
    """End the open session that an expression finds, if there is one, and record that."""
    is_open = ConsoleSession.expires_at > clock.now()
    session = ConsoleSession.select().where(is_it & is_open).first(engine)
    if session is not None:
        ConsoleSession.delete().where(is_it).execute(engine)
        _record_end(engine, actor, session.name, 1, 0)


def _record_end(engine: Engine, actor: Actor | None, name: str, sessions: int, links: int) -> None:
    before = {"sessions": sessions, "links": links}
    subject = Subject("person", name)
    record(engine, actor, "console.end", subject, before, dict.fromkeys(before, 0))


def _remove_expired(engine: Engine, now: int) -> None:
    ConsoleSession.delete().where(ConsoleSession.expires_at <= now).execute(engine)
    is_old = ConsoleLink.expires_at <= now - _USED_LINKS_KEPT_SECONDS
    ConsoleLink.delete().where(is_old).execute(engine)


def _end_of(started_at: int, used_at: int, idle_seconds: int) -> int:
    latest = started_at + SESSION_SECONDS
    return min(latest, used_at + idle_seconds) if idle_seconds else latest


def _session(row: tuple[str, str, str, int, int]) -> Session:
    session_id, name, role, started_at, expires_at = row
    return Session(session_id, name, Role(role), started_at, expires_at)


def _new_token() -> str:
    return base62(secrets.randbits(_TOKEN_BITS), TOKEN_CHARACTERS)


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()
