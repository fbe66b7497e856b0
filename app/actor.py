"""Who changes something: who runs this command, or who is signed in to the console (D130)."""

import os
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec

from app.config import sudo_user
from app.directories import user_name

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
    """Who runs this process, as a record of the audit trail has it; None for what is not known."""

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
    """Return login and user of sudo of this process.

    Nothing is left out of them but what no record can hold: the environment can hold any bytes, and
    any number of them.
    """
    return Session(*(each and _encodable(each) for each in (login(), sudo_user())))


def _encodable(name: str) -> str:
    return name[:NAME_CHARACTERS_MAX].encode(errors="backslashreplace").decode()


def _checked(name: str) -> str:
    """Return a name that can be stored: the environment can hold any bytes, and any number."""
    printable = "".join(each if each.isprintable() else "?" for each in name)
    return printable[:NAME_CHARACTERS_MAX]
