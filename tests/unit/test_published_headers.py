"""`--suggest-map` is right about headers that registers publish and programs export, or asks.

`published_headers.txt` has a paragraph for each: country and source, the kind, the header, what
each column is, and rows with values of our own. A member with a question mark is one that the name
does not settle; `-` is no member of this kind.
"""

import csv
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from app.registers.formats.csv_format import likely_separator
from app.registers.formats.mapping_file import questions_of
from app.registers.formats.suggesting.sample import Sample
from app.registers.formats.suggesting.suggestion import missing_members, suggest
from app.registers.formats.suggesting.toml_text import mapping_text
from app.storage.tables import Kind
from tests.rows import each_row

PATH = Path(__file__).with_name("published_headers.txt")


class Header(NamedTuple):
    """A header, and what its columns are."""

    kind: Kind
    file: str
    settled: Mapping[str, str]
    """The columns whose names are certain, by member."""
    asked: Mapping[str, str]
    """The columns that only a person can tell, by member."""


def read_headers() -> dict[str, Header]:
    """Return the headers by country and source."""
    return dict(map(_header, PATH.read_text(encoding="utf-8").strip().split("\n\n")))


def _header(paragraph: str) -> tuple[str, Header]:
    title, kind, header, members, *rows = paragraph.split("\n")
    separator = likely_separator(header)
    names, meanings = csv.reader([header, members], delimiter=separator)
    means = dict(zip(meanings, names, strict=True))
    means.pop("-", None)
    asked = {each.rstrip("?"): means[each] for each in means if each.endswith("?")}
    settled = {each: means[each] for each in means if not each.endswith("?")}
    return title, Header(Kind(kind), "\n".join([header, *rows, ""]), settled, asked)


HEADERS = read_headers()


def suggested(header: Header, kind: Kind | None = None) -> str:
    """Return the suggested mapping, after the operator has named the kind if it is asked for."""
    made = mapping_text(suggest(Sample(header.file.encode()), kind), "f.csv", "own", "import")
    is_asked = tomllib.loads(made)["kind"] == "?"
    return suggested(header, header.kind) if is_asked else made


def test_the_headers_are_many():
    """There are at least 60 of them, from at least 20 countries."""
    assert len(HEADERS) >= 60
    assert len({title.split(" ")[0] for title in HEADERS}) >= 20


@each_row("title", HEADERS)
def test_each_header_is_right_or_asks(title):
    """A certain name settles its member; all other columns of members, and lacking keys, ask."""
    header = HEADERS[title]
    made = suggested(header)
    document = tomllib.loads(made)
    settled = {each: name for each, name in document["columns"].items() if name != "?"}
    asked = document["columns"].keys() - settled.keys()
    assert (document["kind"], settled) == (header.kind, header.settled)
    assert asked >= header.asked.keys() | set(missing_members(header.kind, settled))
    assert {f"columns.{each}" for each in asked} <= set(questions_of(document))


@each_row("title", [each for each in HEADERS if HEADERS[each].asked])
def test_the_right_column_is_a_candidate(title):
    """The comments above a question name the column that the operator will choose."""
    header = HEADERS[title]
    lines = suggested(header).splitlines()
    for member, name in header.asked.items():
        at = lines.index(f'{member} = "?"')
        above = [line for line in lines[:at] if line.startswith("#")]
        assert any(f'"{name}" (' in line for line in above[-12:]), (member, name)


@each_row("title", HEADERS)
def test_no_value_is_shown(title):
    """A suggestion has names of columns, forms and known words only (D99)."""
    header = HEADERS[title]
    text = suggested(header)
    values = {
        value
        for row in header.file.splitlines()[1:]
        for value in row.replace(";", ",").split(",")
        if len(value) > 4 and any(map(str.isdigit, value))
    }
    assert [value for value in values if value in text] == []
