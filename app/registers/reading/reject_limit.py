"""The limit of rejects that a load may have."""

from typing import NamedTuple


class RejectLimit(NamedTuple):
    """How many rejects a load may have: `N`, or `N%` of its records (D28)."""

    number: float
    is_percent: bool

    @classmethod
    def parse(cls, text: str) -> "RejectLimit":
        """Return the limit that a text of the form `N` or `N%` means. Raises ValueError."""
        is_percent = text.endswith("%")
        number = float(text[:-1]) if is_percent else int(text)
        if not 0 <= number <= (100 if is_percent else 10**12):
            raise ValueError("must be N or N%, not negative, at most 100%")
        return cls(number, is_percent)

    def is_passed(self, rejected: int, rows: int) -> bool:
        """Return whether `rejected` records of `rows` are too many."""
        return rejected > (rows * self.number / 100 if self.is_percent else self.number)

    def __str__(self) -> str:
        return f"{self.number:g}%" if self.is_percent else f"{self.number:g}"
