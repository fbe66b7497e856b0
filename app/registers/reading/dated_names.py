"""Files of the DVSA, whose names have a date that decides the order of loading (formats 2)."""

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

_DATED_NAME = re.compile(
    r"(?P<what>bulk|delta)-light-vehicle_(?P<day>[0-9]{2})-(?P<month>[0-9]{2})-(?P<year>[0-9]{4})"
    r"[^/\\]*\Z",
    re.IGNORECASE,
)

T = TypeVar("T")


def is_dated(name: str) -> bool:
    """Tell whether a name is one of the DVSA's, with a date."""
    return _DATED_NAME.search(name) is not None


def in_order_of_dates(files: Sequence[T], name_of: Callable[[T], str]) -> list[T]:
    """Return files in the order of the dates in their names, a bulk before deltas of its day.

    The dates do not sort as texts: 30-06-2025 must be applied before 01-07-2025. Unless all files
    have such a name, they stay in the given order.
    """
    dates = [_DATED_NAME.search(name_of(file)) for file in files]

    def order(dated: tuple[re.Match[str] | None, T]) -> tuple[str, ...]:
        date = dated[0]
        return (date["year"], date["month"], date["day"], date["what"].lower()) if date else ()

    if None in dates:
        return list(files)
    return [file for _, file in sorted(zip(dates, files, strict=True), key=order)]
