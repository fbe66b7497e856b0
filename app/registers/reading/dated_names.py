"""Sorts files of the DVSA by the date in their names (formats 2)."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

_DATED_NAME = re.compile(
    r"(?P<type>bulk|delta)-light-vehicle_(?P<day>[0-9]{2})-(?P<month>[0-9]{2})-(?P<year>[0-9]{4})"
    r"[^/\\]*\Z",
    re.IGNORECASE,
)

T = TypeVar("T")


def is_dated(name: str) -> bool:
    """Return whether a name is that of a file of the DVSA with a date."""
    return _DATED_NAME.search(name) is not None


def sorted_by_date(files: Sequence[T], name_of: Callable[[T], str]) -> list[T]:
    """Return files sorted by the date in their names, with a bulk file before deltas of its day.

    The dates do not sort as texts: 30-06-2025 comes before 01-07-2025. If any name has no such
    date, the files keep their order.
    """
    dates = [_DATED_NAME.search(name_of(file)) for file in files]

    def order(dated: tuple[re.Match[str] | None, T]) -> tuple[str, ...]:
        date = dated[0]
        return (date["year"], date["month"], date["day"], date["type"].lower()) if date else ()

    if None in dates:
        return list(files)
    return [file for _, file in sorted(zip(dates, files, strict=True), key=order)]
