"""The table of the history, in the main database (D25)."""

import getpass
import os
from typing import Any

import msgspec
import peewee

from app import clock
from app.storage.engine import Engine


class RegisterLoad(peewee.Model):
    """A line of the history: what was loaded, by whom, and how it ended. Times: Unix seconds."""

    id = peewee.AutoField()
    register = peewee.CharField(30)
    kind = peewee.CharField(10)
    mode = peewee.CharField(10)
    format = peewee.CharField(30)
    files = peewee.TextField()
    status = peewee.CharField(10)
    """`running`, `done` or `failed`."""
    reason = peewee.TextField(null=True)
    """Why it failed; if it is done, which load took it back (D69)."""
    rows = peewee.BigIntegerField(default=0)
    loaded = peewee.BigIntegerField(default=0)
    changed = peewee.BigIntegerField(default=0)
    rejected = peewee.BigIntegerField(default=0)
    skipped = peewee.BigIntegerField(default=0)
    checksum = peewee.TextField(null=True)
    """SHA-256 of the decompressed content of all files, in their order."""
    held = peewee.BigIntegerField(null=True)
    """How many rows of its kind the register held afterwards."""
    known = peewee.TextField(null=True)
    """A JSON object: how many rows know each member. For a merge, only rows that it touched."""
    accepted = peewee.TextField(null=True)
    """A JSON array of what the operator allowed: `shrink`, `loss:insured` and so on."""
    is_terminated = peewee.BooleanField(null=True)
    """Whether the last record of every file had a line end; null if the format has none."""
    sizes = peewee.TextField(null=True)
    """A JSON array with the size of each file in bytes, null for a pipe."""
    reasons = peewee.TextField(null=True)
    """A JSON array of the first five rejects, each with `file`, `line` and `reason`."""
    notes = peewee.TextField(null=True)
    """A JSON array of the notes on the files, each a sentence."""
    loaded_by = peewee.CharField(100)
    actor = peewee.TextField(null=True)
    """The `Actor` as a JSON object if an operator ran the load; null for a timer (D130)."""
    started_at = peewee.BigIntegerField()
    finished_at = peewee.BigIntegerField(null=True)
    progress = peewee.TextField(null=True)
    """A `Progress` as a JSON array: how far the load had got a few seconds ago (D135)."""

    class Meta:
        table_name = "register_load"


def insert_line(engine: Engine, **columns: object) -> int:
    """Add a line to the history, with the current time and user, and return its number."""
    insert = RegisterLoad.insert(loaded_by=_user(), started_at=clock.now(), **columns)
    return int(insert.execute(engine))


def json_text(values: object) -> str:
    """Return a list, a dict or a struct as JSON text, for a column of the history."""
    return msgspec.json.encode(values).decode()


def json_list(text: str | None, item: Any) -> list[Any]:
    """Return the list in a JSON column of the history, empty if the column is null.

    Args:
        item: the type of the items.
    """
    return msgspec.json.decode(text, type=list[item]) if text else []


def _user() -> str:
    """Return the name of the user who loads."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # A container may run as a user that has no name.
        return f"user {os.geteuid()}"
