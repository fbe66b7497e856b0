"""The history of loads, in the main database (D25)."""

import getpass
import os
from typing import Any

import msgspec
import peewee

from app import clock
from app.storage.engine import Engine


class RegisterLoad(peewee.Model):
    """One load: what was asked, by whom, and how it ended. Times are Unix seconds."""

    id = peewee.AutoField()
    register = peewee.CharField(30)
    kind = peewee.CharField(10)
    mode = peewee.CharField(10)
    format = peewee.CharField(30)
    files = peewee.TextField()
    status = peewee.CharField(10)
    """`running`, `done` or `failed`."""
    reason = peewee.TextField(null=True)
    """Why it failed; of one that is done, how it was taken back (D69)."""
    rows = peewee.BigIntegerField(default=0)
    loaded = peewee.BigIntegerField(default=0)
    changed = peewee.BigIntegerField(default=0)
    rejected = peewee.BigIntegerField(default=0)
    skipped = peewee.BigIntegerField(default=0)
    checksum = peewee.TextField(null=True)
    """SHA-256 of all that was read, decompressed, in the order of the files."""
    held = peewee.BigIntegerField(null=True)
    """Rows of its kind that the register held afterwards."""
    known = peewee.TextField(null=True)
    """A JSON object: how many of the rows (of a merge: the touched ones) know each member."""
    accepted = peewee.TextField(null=True)
    """A JSON array of what the operator allowed, such as `shrink` or `loss:insured`."""
    is_terminated = peewee.BooleanField(null=True)
    """Whether the last record of every file had a line end; null if the format has none."""
    sizes = peewee.TextField(null=True)
    """A JSON array: the size of each file in bytes, null if it was a pipe."""
    reasons = peewee.TextField(null=True)
    """A JSON array of the first five rejects, each with `file`, `line` and `reason`."""
    notes = peewee.TextField(null=True)
    """A JSON array of the notes on the files."""
    loaded_by = peewee.CharField(100)
    started_at = peewee.BigIntegerField()
    finished_at = peewee.BigIntegerField(null=True)

    class Meta:
        table_name = "register_load"


def insert_line(engine: Engine, **line: object) -> int:
    """Add a line to the history, of this moment and this user; returns its number."""
    insert = RegisterLoad.insert(loaded_by=_user(), started_at=clock.now(), **line)
    return int(insert.execute(engine))


def text_of(values: object) -> str:
    """Return a list or an object as a column of the history keeps it."""
    return msgspec.json.encode(values).decode()


def list_of(text: str | None, kind: Any) -> list[Any]:
    """Return the list of things of one kind that a column keeps, empty if it has none."""
    return msgspec.json.decode(text, type=list[kind]) if text else []


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container may run as a user that has no name.
        return f"user {os.geteuid()}"
