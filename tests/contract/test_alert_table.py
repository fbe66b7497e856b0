"""The table of alerts has the titles of all conditions, as messages have them in their subject."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from app.alerts import nightly
from app.config import Config
from app.setting_values import JOBS
from tests.contract.pages import ROOT, table

TOLD = [title for row in table("What an alert says") for title in row[0].split("; ")]
"""A word in capitals stands for a name."""


def titles(module: Path) -> Iterator[str]:
    """Yield the titles of conditions in a module, with NAME for what it puts in."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Condition":
            (title,) = (each.value for each in node.keywords if each.arg == "title")
            choices = [title.body, title.orelse] if isinstance(title, ast.IfExp) else [title]
            yield from map(_text, choices)


def _text(title: ast.expr) -> str:
    parts = title.values if isinstance(title, ast.JoinedStr) else [title]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "NAME" for part in parts)


def job_titles(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Yield those about the nightly jobs, which are made of several words."""
    never = nightly.LastRuns({}, {}, dict.fromkeys(JOBS, 0), None, None, None)
    monkeypatch.setattr(nightly, "is_catching_up", lambda: False)
    for began_at in (None, 0):
        monkeypatch.setattr(nightly, "running_since", lambda *_, at=began_at: at)
        yield from (each.title for each in nightly.job_conditions(never, Config()))
    for job in JOBS:
        yield from (nightly.Run(job, known, 0).condition().title for known in (True, False))


def without(titles: Iterable[str], others: Iterable[str]) -> list[str]:
    """Return those titles that are none of the others, whatever their words in capitals name."""
    pairs = [(pattern(other), other) for other in others]
    return [
        title
        for title in titles
        if not any(
            known.fullmatch(title) or pattern(title).fullmatch(other) for known, other in pairs
        )
    ]


def pattern(title: str) -> re.Pattern[str]:
    """Return what the title can be with names in it."""
    return re.compile(re.sub(r"\b(NAME|JOB)\b", ".+", re.escape(title)))


def test_the_table_of_alerts_is_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each title is in the table, and each one of the table is a title."""
    modules = set((ROOT / "app" / "alerts").glob("*.py")) - {Path(nightly.__file__)}
    made = {*job_titles(monkeypatch), *(each for path in modules for each in titles(path))}
    assert len(made) > len(JOBS) * 4
    assert (without(made, TOLD), without(TOLD, made)) == ([], [])
