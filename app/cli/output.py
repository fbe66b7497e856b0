"""What commands print: text that ends with a sentence, or one JSON document with `--json`."""

import argparse
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import msgspec

from app.errors import OperatorError

Item = Mapping[str, object]
"""One thing that a command prints: a TypedDict, or `_asdict()` of a NamedTuple."""
_SENTENCES = frozenset({"notes", "reasons"})
"""The members that are lists of sentences."""


def print_item(args: argparse.Namespace, item: Item, sentence: str = "") -> None:
    """Print one item: a line for each member, then the sentence; with `--json` an object.

    Args:
        sentence: what the command did or found, in lower case and without a full stop.
    """
    if args.json:
        print_document(args, item)
        return
    width = max(len(name) for name in item)
    for name, value in item.items():
        first, *others = _lines(name, value)
        print(f"{name:{width}}  {first}")
        for each in others:
            print(f"{'':{width}}  {each}")
    print_sentence(sentence)


def _lines(name: str, value: object) -> list[str]:
    """Return a value as the lines that a person reads: sentences have a line each."""
    if name in _SENTENCES and isinstance(value, list) and value:
        return list(map(str, value))
    return [shown(value)]


def print_items(
    args: argparse.Namespace, items: Sequence[Item], columns: Sequence[str], sentence: str = ""
) -> None:
    """Print a table with these members as columns, then the sentence; with `--json` an array."""
    if args.json:
        print_document(args, items)
        return
    print_table(items, columns)
    print_sentence(sentence)


def print_table(items: Sequence[Item], columns: Sequence[str]) -> None:
    """Print a heading, and a line for each item."""
    rows = [[shown(item[column]) for column in columns] for item in items]
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in [list(columns), *rows]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())


def print_sentence(sentence: str) -> None:
    """Print the last line of a command, with an empty line before it."""
    if sentence:
        print(f"\n{sentence}")


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number and a noun, such as `1 policy` or `2,000 policies`.

    Args:
        many: the plural; the singular and an s by default.
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


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
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document)).decode() + "\n")


# What a command says while somebody waits for it.

PATIENCE_SECONDS = 3
"""Without a terminal, a shorter wait is not worth a line."""


@contextmanager
def waiting_for(args: argparse.Namespace, what: str) -> Iterator[None]:
    """Say on stderr what a command waits for: at once at a terminal, otherwise after 3 s.

    A job says nothing without a terminal: its log has only events.
    NOTE: a thread does it, so do not fork meanwhile.
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
    """Say that a command reads what is typed, which looks as if it did nothing."""
    if is_standard_input and sys.stdin.isatty():
        _say("standard input; end it with Ctrl-D")


def _say(what: str) -> None:
    print(f"waiting for {what}", file=sys.stderr, flush=True)


# Questions before a command destroys data.


def add_yes(command: argparse.ArgumentParser) -> None:
    """Add `--yes`, which answers the question of `confirm`."""
    command.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def confirm(args: argparse.Namespace, question: str) -> None:
    """Ask at the terminal, unless `--yes` is given. Raises OperatorError if the answer is not yes.

    Without a terminal nobody can answer, so `--yes` is required.
    """
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise OperatorError("nothing was changed: without a terminal, confirm with --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise OperatorError("nothing was changed")
