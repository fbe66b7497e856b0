"""What releases promise: the changelog, the way back, and what stays as it is in 1.x (D194)."""

import re
from collections.abc import Iterator
from typing import Any

from app.config import SETTINGS
from app.errors import CATALOGUE
from app.storage.versions import SCRIPTS, program_schema
from app.version import VERSION
from tests.contract.answers import document, resolved
from tests.contract.document_walk import operations
from tests.contract.pages import PAGES, ROOT
from tests.contract.test_pages import PARSER, commands, usage
from tests.rows import each_row

PROMISED = ROOT / "tests" / "contract" / "promised.txt"
PROMISED_LINES = set(PROMISED.read_text(encoding="utf-8").splitlines())
PARTS = ["For operators", "For programmers", "For maintainers", "When you upgrade"]
RELEASES: dict[str, str] = dict(
    re.findall(r"(?ms)^## \[(\d+\.\d+\.\d+)\] - [\d-]{10}\n(.*?)(?=^## |\Z)", PAGES["CHANGELOG.md"])
)
"""The text of each release in the changelog, the newest first."""


UNRELEASED = PAGES["CHANGELOG.md"].partition("## [Unreleased]")[2].partition("\n## ")[0]
NEW_SCHEMAS = [int(schema) for schema in re.findall(r"\bschema (\d+)", UNRELEASED)]
"""The schema that migrations since the newest release lead to, if there are any."""


def schema_of(release: str) -> int:
    """Return the schema that the changelog names for a release."""
    (schema,) = re.findall(r"\bschema (\d+)", RELEASES[release])
    return int(schema)


def test_the_changelog_begins_with_this_release():
    """The newest release in the changelog is this one, in at most 60 lines."""
    newest = next(iter(RELEASES))
    assert newest == VERSION
    assert len(RELEASES[newest].strip().splitlines()) <= 60


@each_row("release", RELEASES)
def test_a_release_says_who_must_know_what(release):
    """Its parts are for operators, programmers and maintainers, then what to do, in this order."""
    told = re.findall(r"(?m)^### (.+)", RELEASES[release])
    assert told == [part for part in PARTS if part in told]
    assert {"For operators", "For programmers"} <= set(told)


def test_the_changelog_names_the_schema():
    """Whoever goes back can see whether another release can use the database."""
    assert (NEW_SCHEMAS or [schema_of(VERSION)]) == [program_schema()]


def test_the_release_before_can_use_the_database():
    """The newest migration lets the programs of the release before serve."""
    (script,) = (SCRIPTS / "main").glob(f"{program_schema():04}_*.py")
    (oldest,) = re.findall(r"oldest_program = (\d+)", script.read_text(encoding="utf-8"))
    before = list(RELEASES)[0 if NEW_SCHEMAS else 1]
    assert int(oldest) <= schema_of(before)


def _kind(schema: dict[str, Any]) -> str:
    """Return the type of a member or parameter in a word."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if alternatives := schema.get("anyOf") or schema.get("oneOf"):
        return "|".join(map(_kind, alternatives))
    found = schema.get("type", "any")
    names = [found] if isinstance(found, str) else found
    return "|".join(f"[{_kind(schema['items'])}]" if name == "array" else name for name in names)


def _members(place: str, schema: dict[str, Any]) -> Iterator[str]:
    for name, member in schema.get("properties", {}).items():
        needed = " required" if name in schema.get("required", ()) else ""
        yield f"{place} {name} {_kind(member)}{needed}"


def promises() -> Iterator[str]:
    """Return what a client or a script can rely on, as lines: one for each name."""
    for path, method, operation in operations():
        place = f"{method.upper()} {path}"
        for parameter in map(resolved, operation.get("parameters", ())):
            needed = " required" if parameter.get("required") else ""
            kind = _kind(parameter["schema"])
            yield f"{place} {parameter['in']} {parameter['name']} {kind}{needed}"
        for media_type, body in operation.get("requestBody", {}).get("content", {}).items():
            yield f"{place} body {media_type} {_kind(body['schema'])}"
        for status, response in operation["responses"].items():
            content = resolved(response).get("content", {"": {}})
            for media_type, body in content.items():
                kind = _kind(body["schema"]) if "schema" in body else ""
                yield f"{place} {status} {media_type} {kind}".rstrip()
    for name, schema in document()["components"]["schemas"].items():
        yield f"{name} {_kind(schema)}"
        yield from _members(name, schema)
    yield from (f"error {code} {kind.status}" for code, kind in CATALOGUE.items())
    yield from (f"setting {setting.variable}" for setting in SETTINGS.values())
    for words in commands(PARSER):
        command = " ".join(("verifyd", *words))
        yield command
        options = usage(words)._option_string_actions.keys() - {"-h", "--help"}
        yield from (f"{command} {option}" for option in options)


def test_what_was_promised_is_still_there():
    """Each name that a release of 1.x had has its type and status. New ones may come.

    Each release adds its own: `.venv/bin/python -m tests.contract.test_promises`.
    """
    assert len(PROMISED_LINES) > 500
    assert sorted(PROMISED_LINES - set(promises())) == []


if __name__ == "__main__":
    lines = sorted(PROMISED_LINES.union(promises()))
    PROMISED.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
