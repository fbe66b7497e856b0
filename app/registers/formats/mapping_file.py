"""Reads mapping files, in which an operator maps the columns of a CSV file to native members.

All mistakes in them are reported before a register file is opened.
"""

import tomllib
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any, NoReturn

from app.errors import OperatorError
from app.registers.formats import dates
from app.registers.formats.columns import Column, Presence, RowFault
from app.registers.formats.encodings import encoding_fault
from app.registers.formats.mapped import AMOUNT, DATES, FileMapping
from app.registers.formats.native import LAYOUTS, SHAPES, Shape
from app.registers.formats.values import AMOUNTS, TAX_STATUSES, quoted
from app.setting_values import REGISTER_NAME_RULE, is_register_name
from app.storage.tables import Kind

# What is said about mistakes in mapping files, and how to correct them.


def toml_fault(error: tomllib.TOMLDecodeError | UnicodeDecodeError) -> str:
    """Return what is wrong with a file that is not TOML."""
    # The usual cause: a word without quotes.
    hint = "; words are quoted, flags are true or false" if "Invalid value" in str(error) else ""
    return f"The file is not valid TOML: {error}{hint}."


def value_fault(field: str, value: str, fault: RowFault | None = None) -> str:
    """Return what is wrong with a value of a mapping, and which values are allowed.

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
        allowed = f"; use a date as {dates.ISO}"
    return f"{value!r} is not a valid {field}{allowed}"


_MEMBERS = frozenset(
    "kind register delimiter encoding date_format date_formats decimal columns constants "
    "words".split()
)
_NO_DELIMITERS = '"\r\n'


class MappingFault(OperatorError):
    """A mapping file has a mistake. The message names the file and the member."""


def read_mapping(path: Path) -> FileMapping:
    """Return the checked content of a mapping file (TOML). Raises MappingFault."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise MappingFault(f"{path}: The file cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MappingFault(f"{path}: {toml_fault(error)}") from error
    return _Checker(path, document).mapping()


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
        kind = self._kind()
        self._native = {column.label: column for column in LAYOUTS[kind]().columns}
        columns = self._columns()
        return FileMapping(
            kind=kind,
            register=self._register(),
            delimiter=self._delimiter(),
            encoding=self._encoding(),
            columns=columns,
            constants=self._constants(columns),
            words=self._words(columns),
            date_format=self._date_form("date_format", self._document.get("date_format")),
            date_formats=self._date_formats(columns),
            decimal=self._decimal(),
        )

    def _kind(self) -> Kind:
        kind = self._document.get("kind")
        if kind not in list(Kind):
            self._fail("kind", f"must be one of {', '.join(Kind)}")
        return Kind(kind)

    def _register(self) -> str | None:
        name = self._text("register")
        if name is not None and not is_register_name(name):
            self._fail("register", f"must be {REGISTER_NAME_RULE}")
        return name

    def _delimiter(self) -> str | None:
        delimiter = self._text("delimiter")
        if delimiter is not None and (len(delimiter) != 1 or delimiter in _NO_DELIMITERS):
            self._fail("delimiter", "must be one character, neither a quote nor a line end")
        return delimiter

    def _encoding(self) -> str | None:
        encoding = self._text("encoding")
        fault = None if encoding is None else encoding_fault(encoding)
        if fault:
            self._fail("encoding", f"{quoted(str(encoding))}: {fault}")
        return encoding

    def _date_formats(self, columns: Mapping[str, str]) -> dict[str, str]:
        forms = self._table("date_formats")
        for field in forms:
            if field not in columns:
                self._fail(f"date_formats.{field}", "has no column; name it in [columns]")
            if field not in DATES:
                self._fail(f"date_formats.{field}", f"{field} is no date")
        return {field: self._date_form(f"date_formats.{field}", forms[field]) for field in forms}

    def _date_form(self, member: str, form: Any) -> str:
        if form is None:
            return dates.ISO
        if not isinstance(form, str):
            self._fail(member, "must be a string")
        try:
            dates.pattern_of(form)
        except ValueError:
            self._fail(member, dates.RULE)
        return form

    def _decimal(self) -> str:
        decimal = self._text("decimal") or "."
        if decimal not in AMOUNTS:
            self._fail("decimal", 'must be "." or ","')
        return decimal

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
        if AMOUNT in self._native and given.isdisjoint({AMOUNT, "settledOn"}):
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

    def _value(self, member: str, field: str, value: Any) -> str:
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
            self._fail(member, value_fault(field, value, fault))
        if parsed is None and value.strip():
            self._fail(member, value_fault(field, value))
        return value

    def _require_field(self, table: str, field: str) -> None:
        if field not in self._native:
            self._fail(f"{table}.{field}", f"unknown member; use {', '.join(self._native)}")

    def _text(self, member: str) -> str | None:
        value = self._document.get(member)
        if value is not None and not isinstance(value, str):
            self._fail(member, "must be a string")
        return value

    def _table(self, member: str) -> dict[str, Any]:
        table = self._document.get(member, {})
        if not isinstance(table, dict):
            self._fail(member, "must be a table")
        return table

    def _fail(self, member: str, reason: str) -> NoReturn:
        raise MappingFault(f"{self._path}: {member}: {reason}.")
