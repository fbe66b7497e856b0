"""The faults of register files and of their records."""

from app.errors import OperatorError


class FileFault(OperatorError):
    """A file cannot be loaded. The load fails and changes nothing (formats 0.1, D28).

    Args:
        reason: a sentence for the operator. `{line}` in it is replaced by `line`.
        name: the file; empty if only the caller knows it.
        line: the number of the line with the fault, counted from 1.
    """

    def __init__(self, reason: str, name: str = "", line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason if line is None else reason.format(line=line)
        self.name = name
        self._template = reason
        self._line = line

    def moved(self, lines: int) -> "FileFault":
        """Return the same fault with its line number counted from the start of the whole file.

        Args:
            lines: how many lines of the file come before the part that was read.
        """
        line = None if self._line is None else self._line + lines
        return FileFault(self._template, self.name, line)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.name else self.reason


class RowFault(Exception):
    """A record cannot be loaded. The message is the reason in the rejects file."""


class RowSkip(Exception):
    """A valid record is not loaded, such as a fine of another state."""
