"""The output of commands: text that ends with a sentence, or one JSON document with `--json`.

A reader looks at the last line.

Also the line about a long wait, the question before data is destroyed, and plates that are typed.
"""

import argparse
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import BinaryIO, Generic, TypeVar

import msgspec

from app import clock
from app.errors import OperatorError
from app.registers.reading.sources import STANDARD_INPUT
from app.text import printable, printable_lines

Item = Mapping[str, object]
"""One thing that a command prints, by the names of its members."""
T = TypeVar("T")
_TYPED_BYTES_MAX = 65_536
# DEL, the controls that a terminal takes for ESC and a letter, line ends, and changes of direction.
_CONTROLS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_SENTENCES = frozenset({"notes", "reasons", "change"})
"""The members that are lists of sentences."""


class Table(Generic[T]):
    """How commands print things of one kind, such as accounts.

    Args:
        members: the names of the JSON members in their order, separated by spaces. They are
            attributes of a thing. Those named `at` or `..._at` are Unix seconds, printed in UTC.
        columns: the names of the columns of a list; by default all members.
        shown: how the list for a person reads a column, if not as the member.
        width_max: how many characters a line of that list may have; None for any number.
        read: how a member is read that is no attribute.
    """

    def __init__(
        self,
        members: str,
        columns: str = "",
        shown: Mapping[str, Callable[[T], object]] | None = None,
        width_max: int | None = None,
        **read: Callable[[T], object],
    ) -> None:
        self.members = members.split()
        self._columns = columns.split() or self.members
        self._shown = shown or {}
        self._width_max = width_max
        self._read = read

    def item(self, thing: T) -> dict[str, object]:
        """Return the members of a thing."""
        return {name: self._value(thing, name) for name in self.members}

    def print_list(self, args: argparse.Namespace, things: Sequence[T], sentence: str) -> None:
        """Print a line for each thing, then the sentence; with `--json` an array."""
        items = list(map(self.item, things))
        if not args.json:
            for item, thing in zip(items, things, strict=True):
                item |= {name: read(thing) for name, read in self._shown.items()}
        lines = (_shortened(line, self._width_max) for line in table_lines(items, self._columns))
        print_lines(args, items, lines, sentence)

    def _value(self, thing: T, name: str) -> object:
        if name in self._read:
            return self._read[name](thing)
        value = getattr(thing, name)
        return utc(value) if name == "at" or name.endswith("_at") else value


def _shortened(line: str, width_max: int | None) -> str:
    if width_max is None or len(line) <= width_max:
        return line
    return f"{line[: width_max - 3]}..."


def utc(epoch_seconds: int | None) -> str | None:
    """Return Unix seconds as text, None if there are none."""
    return None if epoch_seconds is None else clock.iso_utc(epoch_seconds)


def print_item(
    args: argparse.Namespace, item: Item, sentence: str = "", text: Iterable[str] | None = None
) -> None:
    """Print one item, then the sentence; with `--json` an object.

    Args:
        sentence: the result of the command, in lower case and without a full stop.
        text: the lines for a person; by default one for each member.
    """
    print_lines(args, item, item_lines(item) if text is None else text, sentence)


def print_lines(
    args: argparse.Namespace, document: object, lines: Iterable[str], sentence: str = ""
) -> None:
    """Print lines for a person, then the sentence; with `--json` the document."""
    if args.json:
        print_document(args, document)
        return
    for line in lines:
        # SEC: others choose names of files and texts in them. They must not control the terminal.
        print(printable(line))
    print_sentence(sentence)


def item_lines(item: Item) -> Iterator[str]:
    """Yield a line for each member. Sentences have a line each."""
    width = max(len(name) for name in item)
    for name, value in item.items():
        lines = [shown(value)]
        if name in _SENTENCES and isinstance(value, list) and value:
            lines = [str(each) for each in value]
        for number, line in enumerate(lines):
            yield f"{'' if number else name:{width}}  {line}"


def print_items(
    args: argparse.Namespace, items: Sequence[Item], columns: Sequence[str], sentence: str = ""
) -> None:
    """Print a table with these members as columns, then the sentence; with `--json` an array."""
    print_lines(args, items, table_lines(items, columns), sentence)


def table_lines(items: Sequence[Item], columns: Sequence[str]) -> Iterator[str]:
    """Yield a heading, and a line for each item."""
    yield from aligned([columns, *([shown(item[column]) for column in columns] for item in items)])


def aligned(rows: Sequence[Sequence[str]], further: Iterable[Sequence[str]] = ()) -> Iterator[str]:
    """Yield rows as lines. Further rows do not make the columns wider."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in chain(rows, further):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield line.rstrip()


def print_sentence(sentence: str) -> None:
    """Print the last line of a command, with an empty line before it."""
    if sentence:
        print(f"\n{printable(sentence)}")


def shown(value: object) -> str:
    """Return a value as text for a person: `-` if there is none, digits in groups of three."""
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def print_failure(args: argparse.Namespace, members: Item) -> None:
    """Print why a command failed, if `--json` is given and no document was printed before."""
    if getattr(args, "json", False) and not getattr(args, "has_printed", False):
        print_document(args, {"status": "failed", **members})
        sys.stdout.flush()


def print_document(args: argparse.Namespace, document: object) -> None:
    """Print one JSON document on stdout."""
    args.has_printed = True
    sys.stdout.write(json_text(msgspec.json.format(msgspec.json.encode(document))) + "\n")


def json_text(document: bytes) -> str:
    """Return JSON as text without characters that control a terminal or turn its text around.

    JSON escapes only those below the space.
    """
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", document.decode())


PATIENCE_SECONDS = 3
"""Without a terminal, a shorter wait is not worth a line."""


@contextmanager
def waiting_for(args: argparse.Namespace, what: str) -> Iterator[None]:
    """Say on stderr what a command waits for: at once at a terminal, otherwise after 3 s.

    A job says nothing without a terminal: its log has only events.
    NOTE: a thread prints the line, so do not fork meanwhile.
    """
    is_terminal = sys.stderr.isatty()
    if args.is_job and not is_terminal:
        yield
        return
    timer = threading.Timer(0 if is_terminal else PATIENCE_SECONDS, _say, [what])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        # NOTE: a thread that is left when Python ends needs libgcc, which the binary has not.
        timer.join()


def say_if_terminal_is_read(is_standard_input: bool) -> None:
    """Say that a command waits for somebody to type, which looks as if it did nothing."""
    if is_standard_input and sys.stdin.isatty():
        _say("standard input; end it with Ctrl-D")


@contextmanager
def opened_input(path: str, way_out: str = "") -> Iterator[tuple[BinaryIO, str]]:
    """Open a file, or standard input (`-`), and yield it with its name for messages.

    Args:
        way_out: what to do if the user of the service may not read the file.

    Raises OperatorError if it cannot be opened.
    """
    if path == STANDARD_INPUT:
        say_if_terminal_is_read(True)
        yield sys.stdin.buffer, "standard input"
        return
    try:
        file = open(path, "rb")  # noqa: SIM115 - closed below
    except OSError as error:
        hint = f"; {way_out}" if way_out and isinstance(error, PermissionError) else ""
        raise OperatorError(f"{path} cannot be read: {error.strerror}{hint}") from error
    with file:
        yield file, path


def plates_of(words: Sequence[str]) -> list[str]:
    """Return the plates that arguments name; `-` stands for the lines of standard input.

    SEC: everybody on the machine can read arguments, and sudo logs them.

    Raises OperatorError if standard input is asked for and has no plate, or over 64 KiB.
    """
    if STANDARD_INPUT not in words:
        return list(words)
    say_if_terminal_is_read(True)
    content = sys.stdin.buffer.read(_TYPED_BYTES_MAX + 1)
    if len(content) > _TYPED_BYTES_MAX:
        raise OperatorError("standard input has over 64 KiB; use lookup --csv - for a list")
    lines = content.decode("utf-8-sig", "replace").splitlines()
    typed = [line.strip() for line in lines if line.strip()]
    if not typed:
        raise OperatorError("standard input has no plate; write one on each line")
    return list(chain.from_iterable(typed if word == STANDARD_INPUT else [word] for word in words))


def _say(what: str) -> None:
    print(f"waiting for {printable(what)}", file=sys.stderr, flush=True)


def confirm(args: argparse.Namespace, question: str) -> None:
    """Ask at the terminal, unless `--yes` is given. Raises OperatorError if the answer is not yes.

    Without a terminal nobody can answer, so `--yes` is required.
    """
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise OperatorError("nothing was changed: without a terminal, confirm with --yes")
    print(f"{printable_lines(question)} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise OperatorError("nothing was changed")
