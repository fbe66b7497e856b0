"""The only module that reads the clock."""

import re
import time
from calendar import monthrange
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from pathlib import Path

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def now() -> int:
    """Return the current time as whole Unix seconds, as both engines store all times."""
    return int(time.time())


def now_ns() -> int:
    """Return the current time as whole Unix nanoseconds."""
    return time.time_ns()


def monotonic_ns() -> int:
    """Return the nanoseconds since the host booted. All its processes share this clock."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Return the identifier of the current boot of the host. Raises OSError."""
    return _BOOT_ID.read_text(encoding="ascii").strip()


def today(zone: tzinfo) -> date:
    """Return today's date in `zone`."""
    return day_of(now(), zone)


# PERF: many requests come in the same second.
@lru_cache(maxsize=16)
def day_of(epoch_seconds: int, zone: tzinfo) -> date:
    """Return the date in `zone` at a time in Unix seconds."""
    return datetime.fromtimestamp(epoch_seconds, zone).date()


def seconds_of(day: date, zone: tzinfo) -> range:
    """Return the Unix seconds of a day in `zone`."""
    return range(start_of(day, zone), start_of(day + timedelta(1), zone))


def start_of(day: date, zone: tzinfo) -> int:
    """Return when a day begins in `zone`, in Unix seconds."""
    return int(datetime.combine(day, datetime.min.time(), zone).timestamp())


# PERF: many vehicles changed in the same load, and many requests come in the same second: a look-up
# takes 5 % less.
@lru_cache(maxsize=4096)
def iso_utc(epoch_seconds: int) -> str:
    """Format Unix seconds as `YYYY-MM-DDTHH:MM:SSZ`."""
    # PERF: strftime() takes three times as long.
    return f"{(_EPOCH + timedelta(seconds=epoch_seconds)).isoformat()}Z"


def iso_utc_microseconds(epoch_ns: int) -> str:
    """Format Unix nanoseconds as `YYYY-MM-DDTHH:MM:SS.ffffffZ`. Texts sort like times."""
    # PERF: 0.6 us in place of 1.8 us, for each record of the audit trail.
    seconds, rest_ns = divmod(epoch_ns, 10**9)
    return f"{iso_utc(seconds)[:-1]}.{rest_ns // 1000:06}Z"


def duration_text(seconds: int) -> str:
    """Return a duration in its two largest units, such as `2 d 3 h`."""
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        number, seconds = divmod(seconds, size)
        if number:
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2]) or "0 s"


def parse_iso_date(text: str) -> date | None:
    """Return the date that a text of the form YYYY-MM-DD names; None for any other text."""
    # fromisoformat() alone also accepts 20260131 and 2026-W05-6.
    if len(text) != len("YYYY-MM-DD") or text[4] != "-" or text[7] != "-":
        return None
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


# PERF: sweeps and look-ups ask for few days, hundreds of thousands of times.
@lru_cache(maxsize=4096)
def shifted_day(day: str, days: int) -> str:
    """Return the ISO date that is some days after another one. Raises OverflowError if none is."""
    return (date.fromisoformat(day) + timedelta(days)).isoformat()


def is_day_before(day: str, other: str) -> bool:
    """Tell whether an ISO date is the day before another one."""
    return day < other and shifted_day(day, 1) == other


def date_before(age: str, day: date) -> date:
    """Return the date that is an age such as `730d`, `24m` or `2y` before another one.

    Months and years are those of the calendar. Raises ValueError if the age is none.
    """
    found = _AGE.fullmatch(age)
    if found is None:
        raise ValueError("must be a number of days, months or years, such as 730d, 24m or 2y")
    number, months = int(found["number"]), _MONTHS.get(found["unit"])
    try:
        if months is None:
            return day - timedelta(days=number)
        year, month = divmod(day.year * 12 + day.month - 1 - number * months, 12)
        return date(year, month + 1, min(day.day, monthrange(year, month + 1)[1]))
    except (OverflowError, ValueError):
        return date.min


_AGE = re.compile(r"(?P<number>[1-9]\d{0,4})(?P<unit>[dmy])", re.ASCII)
_MONTHS = {"m": 1, "y": 12}


def day_fault(text: str, rule: str = "must be a day as YYYY-MM-DD, such as 2026-12-31") -> str:
    """Return what is wrong with a text that names no day, as the end of a sentence.

    Args:
        rule: what the text must be, if it has not even the form of a day.
    """
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text, re.ASCII) and parse_iso_date(text) is None:
        return "names a day that does not exist"
    return rule


def month_fault(text: str) -> str:
    """Return what is wrong with a text that names no month, as the end of a sentence."""
    if re.fullmatch(r"\d{4}-\d\d", text, re.ASCII):
        return "names a month that does not exist"
    return "must be a month as YYYY-MM, such as 2026-12"


_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC; an aware time would print its offset
