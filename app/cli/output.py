"""What commands print: tables for people, one JSON document with `--json`."""

import argparse
import sys
from collections.abc import Mapping, Sequence

import msgspec

Item = Mapping[str, object]
"""What a command prints of one thing: a TypedDict, or `_asdict()` of a NamedTuple."""


def print_item(args: argparse.Namespace, item: Item) -> None:
    """Print one item: a line for each member, or with `--json` an object."""
    if args.json:
        _print_json(args, item)
        return
    width = max(len(name) for name in item)
    for name, value in item.items():
        print(f"{name:{width}}  {shown(value)}")


def print_items(args: argparse.Namespace, items: Sequence[Item], columns: Sequence[str]) -> None:
    """Print a table of items with these members as columns, or with `--json` an array."""
    if args.json:
        _print_json(args, items)
        return
    rows = [[shown(item[column]) for column in columns] for item in items]
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in [list(columns), *rows]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())


def shown(value: object) -> str:
    """Return a value as text for a person: `-` for nothing, digits in groups of three."""
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def print_failure(args: argparse.Namespace, members: Item) -> None:
    """Print why a command failed, if `--json` is given and it has printed no document yet."""
    if getattr(args, "json", False) and not getattr(args, "has_printed", False):
        _print_json(args, {"status": "failed", **members})
        sys.stdout.flush()


def _print_json(args: argparse.Namespace, document: object) -> None:
    args.has_printed = True
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document)).decode() + "\n")
