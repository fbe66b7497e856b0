"""Remembers what was read before, in bounded memory."""

from collections.abc import Callable
from typing import TypeVar

_REMEMBERED_MAX = 32_768
_TEXT_CHARACTERS_MAX = 100

T = TypeVar("T")


class Memo(dict[str, T]):
    """Remembers the values of texts that come again; `memo[text]` reads a new one.

    PERF: dates, makes and colours repeat in nearly every row; a hit takes 0.1 us, reading a
    date 3 us.
    """

    def __init__(self, read: Callable[[str], T], remembered_max: int = _REMEMBERED_MAX) -> None:
        super().__init__()
        self._read = read
        self._remembered_max = remembered_max

    def __missing__(self, text: str) -> T:
        value = self._read(text)
        # SEC: neither many texts nor long ones may fill the memory.
        if len(text) <= _TEXT_CHARACTERS_MAX:
            if len(self) >= self._remembered_max:
                self.clear()
            self[text] = value
        return value


def remembering(read: Callable[[str], T]) -> Callable[[str], T]:
    """Return a reader that reads a repeated text once."""
    return Memo(read).__getitem__
