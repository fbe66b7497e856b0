"""Reads and checks mapping files (`--map`), which map the columns of a CSV file to native members.

All mistakes in one are reported before a register file is opened.
"""

import tomllib
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from app.errors import OperatorError
from app.registers.formats import date_forms
from app.registers.formats.columns import (
    DELETED,
    Column,
    Presence,
    RowFault,
)
from app.registers.formats.encodings import named_encoding
from app.registers.formats.mapped import (
    AMOUNT,
    CUT,
    DATES,
    END,
    LAST_DAYS,
    TIMES,
    FileMapping,
    native_layout,
)
from app.registers.formats.native import SHAPES
from app.registers.formats.values import AMOUNTS
from app.settings.time_zones import require_zone
from app.settings.values import REGISTER_NAME_RULE, is_register_name
from app.storage.tables import Kind, Shape
from app.vehicles.compliance import TAX_STATUSES

_MEMBERS = frozenset(
    "kind register delimiter encoding timezone date_format date_formats first_day_without times "
    "decimal columns constants words".split()
)
_ASKED = ("kind", "timezone", "date_format", "decimal")
_ASKED_TABLES = ("columns", "constants", "date_formats", "times")
_NO_DELIMITERS = '"\r\n'
QUESTION = "?"
"""The value of a line that only a person can complete, as `--suggest-map` writes it (D99)."""


T = TypeVar("T")


class MappingFault(OperatorError):
    """A mapping file has a mistake. The message names the file and the member."""


def read_mapping(path: Path) -> FileMapping:
    """Return the checked content of a mapping file (TOML). Raises MappingFault."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise MappingFault(f"{path}: The file cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MappingFault(f"{path}: {_toml_fault(error)}") from error
    return _Checker(path, document).mapping()


def questions_of(document: Mapping[str, Any]) -> list[str]:
    """Return what a mapping asks, such as `kind` or `columns.validTo`."""
    asked = [each for each in _ASKED if document.get(each) == QUESTION]
    for name in _ASKED_TABLES:
        table = document.get(name)
        if isinstance(table, dict):
            asked += [f"{name}.{each}" for each, value in table.items() if value == QUESTION]
    return asked


class _Checker:
    """Checks the document of a mapping file. Raises MappingFault."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self._path = path
        self._document = document
        self._native: dict[str, Column] = {}

    def mapping(self) -> FileMapping:
        for member in self._document:
            if member not in _MEMBERS:
                self._fail(member, f"unknown member; use {', '.join(sorted(_MEMBERS))}")
        if asked := questions_of(self._document):
            answer = f'answer the "{QUESTION}", or remove a line that the file has nothing for'
            self._fail(", ".join(asked), answer)
        layout = native_layout(self._kind(), self._table("columns"))
        self._native = {column.label: column for column in layout.columns}
        columns = self._columns()
        return FileMapping(
            kind=self._kind(),
            register=self._text("register", _register),
            delimiter=self._text("delimiter", _delimiter),
            encoding=self._text("encoding", named_encoding),
            timezone=self._text("timezone", require_zone),
            columns=columns,
            constants=self._constants(columns),
            words=self._words(columns),
            date_format=self._date_form("date_format", self._document.get("date_format")),
            date_formats=self._date_formats(columns),
            first_day_without=self._first_day_without(columns),
            times=self._times(columns),
            decimal=self._text("decimal", _decimal) or ".",
        )

    def _kind(self) -> Kind:
        kind = self._document.get("kind")
        if kind not in list(Kind):
            self._fail("kind", f"must be one of {', '.join(Kind)}")
        return Kind(kind)

    def _date_formats(self, columns: Mapping[str, str]) -> dict[str, str]:
        forms = self._table("date_formats")
        for field in forms:
            if field not in columns:
                self._fail(f"date_formats.{field}", "has no column; name it in [columns]")
            if field not in DATES:
                self._fail(f"date_formats.{field}", f"{field} is no date")
        return {field: self._date_form(f"date_formats.{field}", forms[field]) for field in forms}

    def _first_day_without(self, columns: Mapping[str, str]) -> frozenset[str]:
        members = self._document.get("first_day_without", [])
        if not isinstance(members, list) or not all(isinstance(each, str) for each in members):
            self._fail("first_day_without", 'must be a list of members, such as ["validTo"]')
        for field in members:
            if field not in columns:
                self._fail("first_day_without", f"{field} has no column; name it in [columns]")
            if field not in LAST_DAYS:
                known = ", ".join(sorted(LAST_DAYS.intersection(self._native)))
                self._fail("first_day_without", f"{field} is no last day; use {known}")
        return frozenset(members)

    def _times(self, columns: Mapping[str, str]) -> dict[str, str]:
        times = self._table("times")
        for field, meaning in times.items():
            member = f"times.{field}"
            if field not in columns:
                self._fail(member, "has no column; name it in [columns]")
            if SHAPES.get(field) != Shape.DAY:
                self._fail(member, f"{field} is no day")
            if not isinstance(meaning, str) or meaning not in TIMES:
                known = " or ".join(f'"{word}" ({means})' for word, means in TIMES.items())
                self._fail(member, f"must be {known}")
            if meaning == END and field not in LAST_DAYS:
                self._fail(member, f'{field} is no last day; use "{CUT}"')
            if meaning == END and field in self._document.get("first_day_without", ()):
                self._fail(member, f'first_day_without has {field}, too; use "{CUT}"')
        return times

    def _date_form(self, member: str, form: object) -> str:
        if form is None:
            return date_forms.ISO
        if not isinstance(form, str):
            self._fail(member, "must be a string")
        try:
            date_forms.pattern_of(form)
        except ValueError:
            self._fail(member, date_forms.RULE)
        return form

    def _columns(self) -> dict[str, str]:
        columns = self._table("columns")
        for field, name in columns.items():
            if not isinstance(name, str) or not name.strip():
                self._fail(f"columns.{field}", "must be the name of a column")
            self._require_field("columns", field)
        given = columns.keys() | self._table("constants").keys()
        for field, column in self._native.items():
            if column.presence == Presence.REQUIRED and field not in given:
                self._fail(f"columns.{field}", "missing; every row needs it")
        if AMOUNT in self._native and given.isdisjoint({AMOUNT, "settledOn", DELETED}):
            self._fail(f"columns.{AMOUNT}", "missing; every fine needs amount or settledOn")
        return columns

    def _constants(self, columns: Mapping[str, str]) -> dict[str, str]:
        constants = {}
        for field, value in self._table("constants").items():
            self._require_field("constants", field)
            if field in columns:
                self._fail(f"constants.{field}", "also has a column; name it in one table only")
            constants[field] = self._value(f"constants.{field}", field, value)
        return constants

    def _words(self, columns: Mapping[str, str]) -> dict[str, dict[str, str]]:
        tables: dict[str, dict[str, str]] = {}
        for field, table in self._table("words").items():
            if field not in columns:
                self._fail(f"words.{field}", "has no column; name it in [columns]")
            if not isinstance(table, dict):
                self._fail(f"words.{field}", "must be a table of words")
            tables[field] = {
                word.strip().lower(): self._value(f"words.{field}.{word}", field, value)
                for word, value in table.items()
            }
        return tables

    def _value(self, member: str, field: str, value: object) -> str:
        """Return a value of the mapping file as a text for the parser of its field."""
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, int | date):
            value = str(value)
        if not isinstance(value, str):
            self._fail(member, "must be a string")
        try:
            parsed = self._native[field].parse(value)
        except RowFault as fault:
            self._fail(member, _value_fault(field, value, fault))
        if parsed is None and value.strip():
            self._fail(member, _value_fault(field, value))
        return value

    def _require_field(self, table: str, field: str) -> None:
        if field not in self._native:
            known = [*self._native, *([DELETED] if table == "columns" else [])]
            self._fail(f"{table}.{field}", f"unknown member; use {', '.join(known)}")

    def _text(self, member: str, parse: Callable[[str], T]) -> T | None:
        """Return what the text of a member means; None if there is none."""
        value = self._document.get(member)
        if value is None:
            return None
        if not isinstance(value, str):
            self._fail(member, "must be a string")
        try:
            return parse(value)
        except ValueError as error:
            self._fail(member, str(error))

    def _table(self, member: str) -> dict[str, Any]:
        table = self._document.get(member, {})
        if not isinstance(table, dict):
            self._fail(member, "must be a table")
        return table

    def _fail(self, member: str, reason: str) -> NoReturn:
        raise MappingFault(f"{self._path}: {member}: {reason}.")


def _toml_fault(error: tomllib.TOMLDecodeError | UnicodeDecodeError) -> str:
    # The usual cause: a word without quotes.
    hint = "; words are quoted, flags are true or false" if "Invalid value" in str(error) else ""
    return f"The file is not valid TOML: {error}{hint}."


def _value_fault(field: str, value: str, fault: RowFault | None = None) -> str:
    """Return the fault of a value of a mapping, and the allowed values.

    Args:
        fault: why its parser refuses it; None if it only does not know it.
    """
    if SHAPES.get(field) == Shape.FLAG:
        return "must be true or false"
    if fault is not None:
        return str(fault)
    allowed = ""
    if field == "taxStatus":
        allowed = f"; use {', '.join(TAX_STATUSES[:-1])} or {TAX_STATUSES[-1]}"
    elif field in DATES:
        allowed = f"; use a date as {date_forms.ISO}"
    return f"{value!r} is not a valid {field}{allowed}"


def _register(text: str) -> str:
    if not is_register_name(text):
        raise ValueError(f"must be {REGISTER_NAME_RULE}")
    return text


def _delimiter(text: str) -> str:
    if len(text) != 1 or text in _NO_DELIMITERS:
        raise ValueError("must be one character, neither a quote nor a line end")
    return text


def _decimal(text: str) -> str:
    if text not in ("", *AMOUNTS):
        raise ValueError('must be "." or ","')
    return text
