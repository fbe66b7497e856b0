"""The table of alerts has the titles of all conditions, as messages have them in their subject."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from app.alerts import nightly
from app.alerts.conditions import _NEED_DATABASE
from app.alerts.message import Condition
from app.config import Config
from app.settings.values import JOBS
from tests.contract.pages import ROOT, table

TOLD = [title for row in table("What an alert says") for title in row[0].split("; ")]
"""A word in capitals stands for a name."""
MODULES = sorted(set((ROOT / "app" / "alerts").glob("*.py")) - {Path(nightly.__file__)})
"""Those that make conditions, without the one of the nightly jobs."""
TEXTS = ast.Constant | ast.JoinedStr
WITHOUT_DATABASE = {"certificate", "database", "settings"}
"""The kinds of conditions that are looked for even if the database cannot be used."""


def titles(module: Path) -> Iterator[str]:
    """Yield the titles of conditions in a module, with NAME for what it puts in."""
    return texts(module, "title")


def texts(module: Path, member: str) -> Iterator[str]:
    """Yield the texts of one member of conditions, such as `warning`, unless a variable has it."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Condition":
            (found,) = (each.value for each in node.keywords if each.arg == member)
            choices = [found.body, found.orelse] if isinstance(found, ast.IfExp) else [found]
            yield from (template(each) for each in choices if isinstance(each, TEXTS))


def template(node: ast.Constant | ast.JoinedStr) -> str:
    """Return a text of a module, with NAME for what it puts in."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "NAME" for part in parts)


def job_conditions(monkeypatch: pytest.MonkeyPatch) -> Iterator[Condition]:
    """Yield those about the nightly jobs, whose texts are made of several words."""
    never = nightly.LastRuns({}, {}, dict.fromkeys(JOBS, 0), None, None, None)
    monkeypatch.setattr(nightly, "is_catching_up", lambda: False)
    for began_at in (None, 0):
        monkeypatch.setattr(nightly, "running_since", lambda *_, at=began_at: at)
        yield from nightly.job_conditions(never, Config())
    for job in JOBS:
        yield from (nightly.Run(job, known, 0).condition() for known in (True, False))


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
    made = {each.title for each in job_conditions(monkeypatch)}
    made |= {each for path in MODULES for each in titles(path)}
    assert len(made) > len(JOBS) * 4
    assert (without(made, TOLD), without(TOLD, made)) == ([], [])


def test_each_kind_says_whether_it_needs_the_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise alerts would report it as solved while the database cannot be used."""
    made = {each.kind for each in job_conditions(monkeypatch)}
    made |= {key.partition(":")[0] for path in MODULES for key in texts(path, "key")}
    made.discard("NAME")  # It is in a variable.
    assert made - _NEED_DATABASE == WITHOUT_DATABASE
