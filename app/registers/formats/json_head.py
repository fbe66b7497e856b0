"""Finds the syntax of a JSON file and the names of its members by the head of the file."""

import re

from app.registers.formats.columns import normalised
from app.registers.formats.format import HEAD_BYTES
from app.registers.formats.json_splitter import BracketScanner
from app.registers.formats.json_values import find_object
from app.registers.formats.line_blocks import BYTE_ORDER_MARK, windows_1252

_EMPTY_ARRAY = re.compile(rb"(?:\xef\xbb\xbf)?\s*+\[\s*+\]\s*+")
_NAME = re.compile(rb'("(?:[^"\\]++|\\.)*+")\s*+(:?)|[{}\[\]]', re.DOTALL)


def is_empty_array(head: bytes) -> bool:
    """Return whether a file is an empty array, such as the page after the last page of an API."""
    return _EMPTY_ARRAY.fullmatch(head) is not None and len(head) < HEAD_BYTES


def is_array(head: bytes) -> bool:
    """Return whether a file is an array, which marks its own end."""
    return head.removeprefix(BYTE_ORDER_MARK).lstrip().startswith(b"[")


def is_ndjson(head: bytes) -> bool:
    """Return whether a file has one value per line.

    The first line decides. If it is not valid JSON, the other lines decide.
    """
    text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    first, *others = text.splitlines() or [b""]
    if not first.startswith(b"{"):
        return not first.startswith(b"[")
    end = BracketScanner().end(text, 0)
    if end > len(first) and find_object(text[:end]) is not None:
        return False
    if 0 <= end <= len(first):
        rest = first[end:].lstrip()
        return not rest or find_object(rest[: BracketScanner().end(rest, 0)]) is None
    return any(line.startswith(b"{") and find_object(line) for line in others)


def line_member_names(head: bytes) -> frozenset[str]:
    """Return the normalised names of the members of all complete lines of NDJSON."""
    names: set[str] = set()
    for line in head.removeprefix(BYTE_ORDER_MARK).splitlines():
        names.update(find_object(line) or ())
    return frozenset(map(normalised, names))


def member_names(head: bytes) -> frozenset[str]:
    """Return the normalised names of the members of all objects, even if the last is cut off."""
    text = head.removeprefix(BYTE_ORDER_MARK).lstrip()
    names: set[str] = set()
    depth = 0
    depth_of_members = 2 if text.startswith(b"[") else 1
    for token in _NAME.finditer(text):
        if token[1] is None:
            depth += 1 if token[0] in b"{[" else -1
        elif token[2] and depth == depth_of_members:
            names.add(normalised(windows_1252(token[1])))
    # An invalid line can leave brackets open, so each line is also read on its own.
    return frozenset(names) | line_member_names(head)
