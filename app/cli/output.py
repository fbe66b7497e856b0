"""What commands print: tables for people, one JSON document with `--json`."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

Item = Mapping[str, Any]


def print_item(args: argparse.Namespace, item: Item) -> None:
    """Print one thing: a line for each member, or a JSON object."""
    if args.json:
        _print_json(args, item)
        return
    width = max(len(name) for name in item)
    for name, value in item.items():
        print(f"{name:{width}}  {shown(value)}")


def print_items(args: argparse.Namespace, items: Sequence[Item], columns: Sequence[str]) -> None:
    """Print many: a table, or a JSON array. `columns` are the members the table shows."""
    if args.json:
        _print_json(args, items)
        return
    rows = [[shown(item[column]) for column in columns] for item in items]
    widths = [max(map(len, cells)) for cells in zip(columns, *rows, strict=True)]
    for row in [list(columns), *rows]:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print(line.rstrip())


def shown(value: object) -> str:
    """Return a value as people are shown it: `-` for nothing, numbers in groups of three."""
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return "; ".join(map(str, value))
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def print_failure(args: argparse.Namespace, members: Item) -> None:
    """Print why a command failed, with `--json`, unless it has printed its document by then."""
    if getattr(args, "json", False) and not getattr(args, "has_printed", False):
        _print_json(args, {"status": "failed", **members})
        sys.stdout.flush()


def _print_json(args: argparse.Namespace, document: object) -> None:
    args.has_printed = True
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document)).decode() + "\n")
