"""What can be wrong with a register file, and with one of its records."""

from app.errors import OperatorError


class FileFault(OperatorError):
    """A fault of a whole file: the load fails and changes nothing (formats 0.1, D28).

    Args:
        reason: a sentence for the operator; `{line}` in it stands for the line at fault.
        name: the file; empty where only the caller knows it.
        line: the number of the line at fault, counted from 1.
    """

    def __init__(self, reason: str, name: str = "", line: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason if line is None else reason.format(line=line)
        self.name = name
        self._template = reason
        self._line = line

    def moved(self, lines: int) -> "FileFault":
        """Return this fault of a part of a file as a fault of the file.

        Args:
            lines: how many lines of the file come before the part.
        """
        line = None if self._line is None else self._line + lines
        return FileFault(self._template, self.name, line)

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" if self.name else self.reason


class RowFault(Exception):
    """A fault of one record; the message is the reason in the rejects file."""


class RowSkip(Exception):
    """A valid record that is not loaded; the message is the reason."""
