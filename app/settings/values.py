"""Declares settings, and parses their texts.

Each kind of value has a function. It takes the text of the variable, without spaces around it, and
returns the value. If the text is wrong, it raises ValueError with what the text must be. The
operator reads that after the name of the variable.
"""

import grp
import ipaddress
import re
import unicodedata
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from app import clock
from app.errors import listed
from app.settings.roles import Role

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
BESIDE_DATABASE = Path()
"""`directory` returns it for an empty text. Compare it with `is`, because `.` equals it."""
EVERY_REGISTER = "*"
"""Stands for all registers (or jobs) that a setting does not name."""
JOBS = ("import", "backup", "check", "prune")
"""The nightly jobs: `verifyd import --drop`, `backup`, `check --deep` and `audit prune`."""
_REGISTER_NAME = re.compile(r"[a-z][a-z0-9_]{0,29}\Z")
REGISTER_NAME_RULE = "1 to 30 of a-z, 0-9 and _, beginning with a letter"
"""Completes a sentence such as "a register's name has ..."."""
_AGE = re.compile(r"(?P<number>[1-9][0-9]{0,8})(?P<unit>[smhd])\Z", re.ASCII)
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SIZE = re.compile(r"(?P<number>[1-9][0-9]{0,8})(?P<unit>[KMGT])\Z", re.ASCII)
_UNIT_BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
# The use of a session is noted every five minutes (D132).
_IDLE_SECONDS_MIN = 600
_GROUP_MAX = 2**32 - 2
_YEARS_MAX = 10
_PLATES_MAX = 1_000_000
# SEC: proxies join headers that were sent twice by commas, and do not send spaces at the ends.
_PROXY_SECRET = re.compile(r"[!-+\--~]{32,200}\Z")
_SQLITE = "sqlite:///"
_T = TypeVar("_T")


class Setting(NamedTuple):
    """One environment variable."""

    variable: str
    default: str
    """The text that is parsed if the variable is not set."""
    parse: Callable[[str], Any]
    """Returns the value, or raises ValueError with what it must be."""


def setting(default: str, parse: Callable[[str], _T], *, is_secret: bool = False) -> _T:
    """Declare a setting as a field of `Config`, like `dataclasses.field`.

    Args:
        default: the text that is parsed if the variable is not set.
        parse: returns the value of a text, or raises ValueError with what the text must be.
        is_secret: omit the value from `repr(config)`.
    """
    declared: _T = field(
        default_factory=partial(parse, default),
        repr=not is_secret,
        metadata={"default": default, "parse": parse},
    )
    return declared


def is_register_name(text: str) -> bool:
    """Tell whether a text can name a register: 1 to 30 of a-z, 0-9 and _, first a letter."""
    return _REGISTER_NAME.match(text) is not None


def database_url(text: str) -> str:
    """Return the URL of a SQLite file or a Postgres database."""
    text = re.sub(r"\Apostgres://", "postgresql://", text)
    if re.match(r"(sqlite:///|postgresql://).", text):
        return text
    # SEC: the message does not repeat the value: it may hold a password.
    raise ValueError("must be sqlite:///PATH or postgresql://...")


def group(text: str) -> int | None:
    """Return the number of a group, given by name or number; None for an empty text."""
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return whole_number(0, _GROUP_MAX)(text)
    try:
        return grp.getgrnam(text).gr_gid
    except KeyError:
        raise ValueError("must be a group of this host, by name or number") from None


def whole_number(least: int, most: int) -> Callable[[str], int]:
    """Return a function that parses a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least:,} to {most:,}")
        return int(text)

    return parse


def networks(text: str) -> tuple[Network, ...]:
    """Return the addresses and networks in a list with commas."""
    try:
        return tuple(ipaddress.ip_network(part) for part in words(text))
    except ValueError:
        raise ValueError(
            "must be addresses or networks such as 10.0.0.0/8, separated by commas"
        ) from None


def on_or_off(text: str) -> bool:
    """Return True for `on`, False for `off`."""
    return choice("on", "off")(text) == "on"


def choice(*choices: str) -> Callable[[str], str]:
    """Return a function that accepts one of these words."""

    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be {listed(choices, 'or')}")
        return text

    return parse


def words(text: str) -> tuple[str, ...]:
    """Return the texts between commas, without empty ones."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def names(text: str) -> frozenset[str]:
    """Return the set of names in a list with commas."""
    return frozenset(words(text))


def proxy_secret(text: str) -> str:
    """Return a secret that fits into a header, or an empty text."""
    if text and not _PROXY_SECRET.match(text):
        # SEC: the message does not repeat the value.
        raise ValueError("must be 32 to 200 characters of ASCII without spaces and commas")
    return text


def roles_by_group(text: str) -> dict[str, Role]:
    """Return roles such as `it=operator,staff=clerk` by group, in their order."""
    roles: dict[str, Role] = {}
    for part in words(unicodedata.normalize("NFC", text)):
        group, _, role = (each.strip() for each in part.rpartition("="))
        if not group or group in roles or role not in {*Role}:
            raise ValueError(
                "must be different groups with a role, as in it=operator,staff=clerk; the roles "
                f"are {', '.join(Role)}"
            )
        roles[group] = Role(role)
    return roles


def register_names(text: str) -> tuple[str, ...]:
    """Return the names of registers in a list with commas, in its order. No name may repeat."""
    found = words(text)
    if not all(map(is_register_name, found)) or len(set(found)) < len(found):
        raise ValueError("must be different register names, separated by commas")
    return found


def age(text: str) -> int:
    """Return an age such as `36h`, `7d` or `0` in seconds."""
    found = _AGE.match(text)
    if found is None and text != "0":
        raise ValueError("must be an age such as 36h or 7d, or 0")
    return int(found["number"]) * _UNIT_SECONDS[found["unit"]] if found else 0


def idle_time(text: str) -> int:
    """Return an age such as `1h` in seconds, of at least ten minutes; 0 for `0`."""
    seconds = age(text)
    if 0 < seconds < _IDLE_SECONDS_MIN:
        raise ValueError("must be at least 10m, or 0")
    return seconds


def ages_by_register(text: str) -> dict[str, int]:
    """Return ages such as `7d` or `rdw=2d,mid=36h,*=7d` in seconds, by register; none of them 0."""
    rule = "must be an age such as 36h or 7d, or one for each register, as in rdw=2d,*=7d"
    return _by_name(text, _age_above_0, rule)


def ages_or_off_by_register(text: str) -> dict[str, int]:
    """Return ages as `ages_by_register` does, and 0 for `0`."""
    rule = "must be an age such as 7d, or 0, or one for each register, as in rdw=2d,*=0"
    return _by_name(text, age, rule, is_needed=True)


def years_by_register(text: str) -> dict[str, int]:
    """Return years such as `3` or `dvsa=3,native=0`, by register."""
    rule = (
        f"must be a whole number from 0 to {_YEARS_MAX}, or one for each register, as in "
        "dvsa=3,native=0"
    )
    return _by_name(text, whole_number(0, _YEARS_MAX), rule, is_needed=True)


def ages_by_job(text: str) -> dict[str, int]:
    """Return ages such as `26h` or `import=26h,backup=8d` in seconds, by nightly job."""
    rule = "must be an age such as 26h, or one for each job, as in import=26h,backup=8d"
    return _by_name(text, _age_above_0, rule, {*JOBS, EVERY_REGISTER})


def plates_by_role(text: str) -> dict[str, int]:
    """Return how many plates each role may look up, from a text such as `clerk=500,viewer=50`."""
    rule = (
        f"must be a whole number from 1 to {_PLATES_MAX:,} for each role, as in "
        f"clerk=500,viewer=50; the roles are {', '.join(Role)}"
    )
    return _by_name(text, whole_number(1, _PLATES_MAX), rule, {*Role})


def _age_above_0(text: str) -> int:
    if text == "0":
        raise ValueError
    return age(text)


def _by_name(
    text: str,
    parse: Callable[[str], int],
    rule: str,
    names: Collection[str] | None = None,
    *,
    is_needed: bool = False,
) -> dict[str, int]:
    """Return the values by register, job or role, with EVERY_REGISTER for a value alone.

    Args:
        parse: returns one value, or raises ValueError.
        names: those that there are; None for EVERY_REGISTER and all names of registers.
        is_needed: refuse a text without any value.

    Raises ValueError with the rule if a name or a value is wrong.
    """
    values: dict[str, int] = {}
    for part in words(text):
        name, _, written = part.rpartition("=")
        name = name.strip() if "=" in part else EVERY_REGISTER
        is_name = name in names if names else name == EVERY_REGISTER or is_register_name(name)
        if name in values or not is_name:
            raise ValueError(rule)
        try:
            values[name] = parse(written.strip())
        except ValueError:
            raise ValueError(rule) from None
    if is_needed and not values:
        raise ValueError(rule)
    return values


def calendar_age(text: str) -> str:
    """Return an age such as `730d`, `24m` or `2y`, which is counted by the calendar."""
    clock.date_before(text, date.max)
    return text


def size_bytes(text: str) -> int:
    """Return a size such as `500M` or `10G` in bytes."""
    found = _SIZE.match(text)
    if found is None:
        raise ValueError("must be a size such as 500M or 10G")
    return int(found["number"]) * _UNIT_BYTES[found["unit"]]


def directory(text: str) -> Path:
    """Return the path of a directory; BESIDE_DATABASE for an empty text."""
    return Path(text) if text else BESIDE_DATABASE


def absolute_path(text: str) -> Path | None:
    """Return an absolute path; None for an empty text."""
    if text and not text.startswith("/"):
        raise ValueError("must be an absolute path")
    return Path(text) if text else None


def sqlite_path(url: str) -> Path | None:
    """Return the file that a `sqlite:///PATH` URL names; None for any other URL."""
    return Path(url.removeprefix(_SQLITE)) if url.startswith(_SQLITE) else None


def service_url(text: str) -> str:
    """Return the address under which clients reach the service, without a slash at its end."""
    # A host in brackets that is no IPv6 address, or a port that is no number, raises ValueError.
    with suppress(ValueError):
        parts = urlsplit(text)
        is_address = parts.scheme in ("http", "https") and parts.netloc and parts.port != 0
        if is_address and not parts.query and not parts.fragment:
            return text.rstrip("/")
    raise ValueError("must be the address of the service: https://HOST")


def optional_url(text: str) -> str:
    """Return the address of the service, or an empty text."""
    return service_url(text) if text else ""
