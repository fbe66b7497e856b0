"""Where the rules of time zones come from, and which zone this host has.

The system has them, and so has the package `tzdata`. The newer ones count; `zoneinfo` alone would
always prefer those of the system, which can be years old, or missing on a minimal system.
"""

import os
import re
import zoneinfo
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from importlib.resources import files
from typing import NamedTuple

import tzdata  # type: ignore[import-untyped]

from app import clock

_HOUR_SECONDS = 3600
_COMPARED_SECONDS = 5 * 366 * 86_400
_LOCALTIME = "/etc/localtime"


class Rules(NamedTuple):
    """The rules of all zones, as compiled files in a directory."""

    directory: str
    version: str
    """Such as `2026f`; empty if it cannot be read."""

    @property
    def age(self) -> tuple[str, int, str]:
        """A key that sorts from the oldest to the newest: after 2026z comes 2026za."""
        return self.version[:4], len(self.version), self.version

    def find_zone(self, name: str) -> zoneinfo.ZoneInfo | None:
        """Return the zone of this name; None if there is none, or if its file is damaged."""
        with suppress(OSError, ValueError), open(os.path.join(self.directory, name), "rb") as file:
            return zoneinfo.ZoneInfo.from_file(file, key=name)
        return None


def rules_in(directory: str) -> Rules:
    for name in ("tzdata.zi", "+VERSION"):
        path = os.path.join(directory, name)
        with suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
            found = re.match(r"(?:# version )?(\d{4}[a-z]{1,2})\b", file.readline(80))
            if found:
                return Rules(directory, found[1])
    return Rules(directory, "")


PACKAGE = rules_in(os.path.abspath(str(files(tzdata).joinpath("zoneinfo"))))
SYSTEM = next((rules_in(each) for each in zoneinfo.TZPATH if os.path.isdir(each)), None)
USED = SYSTEM if SYSTEM and SYSTEM.age > PACKAGE.age else PACKAGE
if USED is PACKAGE:
    # The system stays behind it, for names that it alone has, such as posix/Europe/London.
    zoneinfo.reset_tzpath([PACKAGE.directory, *zoneinfo.TZPATH])


def rules_of(name: str) -> Rules:
    """Return the rules that a zone comes from: a name that one lacks comes from the other."""
    sources = (USED, SYSTEM, PACKAGE)
    return next((each for each in sources if each and each.find_zone(name)), USED)


def require_zone(name: str) -> tzinfo:
    """Return the time zone of this name in the IANA database. Raises ValueError."""
    if name == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be the name of a time zone, such as Europe/London") from None


def differs_from(zone: tzinfo, other: tzinfo) -> int | None:
    """Return when two zones first differ in the coming five years, in Unix seconds; None if never.

    Each full hour is compared, which takes up to half a second.
    """
    begin = clock.now() // _HOUR_SECONDS * _HOUR_SECONDS
    for time in range(begin, begin + _COMPARED_SECONDS, _HOUR_SECONDS):
        here, there = (datetime.fromtimestamp(time, each).utcoffset() for each in (zone, other))
        if here != there:
            return time
    return None


def host_zone(localtime: str = _LOCALTIME) -> tzinfo | None:
    """Return the zone of this host; None if it cannot be read.

    Its text is the name that `/etc/localtime` links to, or this path if it is a copy. Without that
    file, or if the link leads nowhere, the zone is UTC, as for every program of the host.
    """
    try:
        with open(localtime, "rb") as file:
            target = os.readlink(localtime) if os.path.islink(localtime) else ""
            name = target.partition("/zoneinfo/")[2] or localtime
            return zoneinfo.ZoneInfo.from_file(file, key=name)
    except FileNotFoundError:
        return UTC
    except (OSError, ValueError):
        return None
