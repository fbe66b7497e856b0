"""The page for when something is wrong has a row for each text of alerts, check and /readyz."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from app.config import Config
from app.registers.deep_check import _KEPT_AS
from tests.contract.pages import PAGES, ROOT
from tests.contract.test_alert_table import MODULES, TEXTS, job_conditions, template, texts

TABLES = re.findall(
    r"(?m)^\| (?!Symptom).* \| Next step \|\n\|[-|]+\|\n((?:\|.*\n)+)",
    PAGES["deploy/docs/trouble.md"],
)
WORDS = [
    words
    for rows in TABLES
    for row in rows.splitlines()
    for words in row.removeprefix("| ").partition(" | ")[0].split("; ")
]
"""What the rows quote: words of one text each."""
WORDS_MIN = 4
"""A text of fewer words is a part of one that has a row."""
PARTS = {
    "NAME, so each is refused: NAME.",
    "NAME: name a directory on a disk.",
    "of an unknown version",
    "update the package tzdata of the system",
}
"""Other parts of such texts."""


@cache
def pattern(words: str) -> re.Pattern[str]:
    """Return where these words are; a name in capitals and three dots stand for anything."""
    anything = r"\b(NAME|JOB)\b|(\\\.){3}"
    return re.compile(re.sub(anything, ".+", re.escape(words)), re.IGNORECASE)


def without_row(made: Iterable[str]) -> list[str]:
    """Return the texts that no row is about."""
    whole = {each for each in made if is_whole(each)} - PARTS
    return sorted(each for each in whole if not any(fits(words, each) for words in WORDS))


def is_whole(text: str) -> bool:
    """Tell whether a text says something by itself."""
    return len(re.findall(r"[a-z]+", text)) >= WORDS_MIN


def fits(words: str, text: str) -> bool:
    """Tell whether a row that quotes these words is about a text."""
    if pattern(words).search(text):
        return True
    return "NAME" in text and is_whole(text) and bool(pattern(text).fullmatch(words))


@cache
def templates(module: Path) -> set[str]:
    """Return the texts of a module, without its docstrings, with NAME for what it puts in."""
    tree = ast.parse(module.read_bytes())
    parts = {id(part) for node in ast.walk(tree) for part in _parts(node)}
    nodes = (node for node in ast.walk(tree) if isinstance(node, TEXTS) and id(node) not in parts)
    return {template(node) for node in nodes}


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.JoinedStr):
        yield from node.values
    elif isinstance(node, ast.Expr):
        yield node.value


def alert_texts(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the subjects of all alerts, and the sentences that say what is wrong."""
    jobs = [(each.title, each.warning) for each in job_conditions(monkeypatch)]
    others = {each for path in MODULES for it in ("title", "warning") for each in texts(path, it)}
    return others.union(*jobs)


def test_each_alert_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its subject has one, and so has the sentence in its text."""
    assert without_row(alert_texts(monkeypatch)) == []


@pytest.mark.parametrize("module", ["check", "health"])
def test_each_finding_has_a_row(module: str) -> None:
    """So has what only `verifyd check`, or only /readyz, says."""
    assert without_row(templates(ROOT / "app" / "monitoring" / f"{module}.py")) == []


def test_each_row_is_about_a_text_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a row quotes is in one."""
    made = {each for path in (ROOT / "app").rglob("*.py") for each in templates(path)}
    made |= {f"{what} is damaged".format(name="NAME", load=1) for what, _ in _KEPT_AS.values()}
    made |= {*Config.read({"VERIFYD_STALE_AFTER": "never"})[1]}
    # PERF: one search in all of them takes a tenth of the time.
    lines, alerts = "\n".join(made), alert_texts(monkeypatch)
    left = [words for words in WORDS if not pattern(words).search(lines)]
    assert len(WORDS) > 60
    assert [words for words in left if not any(fits(words, each) for each in alerts)] == []
