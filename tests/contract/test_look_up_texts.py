"""All texts of the look-up page are in one module, so that a language can be added."""

import re
from zoneinfo import ZoneInfo

import jinja2
import pytest

from app.console.look_up_texts import in_words, recorded
from tests.contract.pages import ROOT

TEMPLATES = ROOT / "app" / "console" / "templates"
WORD = re.compile(r"[A-Za-z]{2,}")
SPOKEN = re.compile(r'(?:aria-label|data-title|data-copied|title|placeholder|alt)="([^"]*)"')
ATTRIBUTES = re.compile(r"{% set attributes %}.*?{% endset %}")
CLASSES = ("cards", "overview")
SENTENCE = re.compile(r"[A-Za-z] [A-Za-z]|\b[A-Z][a-z]")


@pytest.mark.parametrize("name", ["look_up.html", "look_up_parts.html"])
def test_the_templates_have_no_texts(name):
    """Outside of expressions there are only elements, and strings in expressions are no texts."""
    source = ATTRIBUTES.sub("", (TEMPLATES / name).read_text())
    tokens = list(jinja2.Environment(autoescape=True).lex(source))
    data = "".join(text for _, kind, text in tokens if kind == "data")
    told = [*SPOKEN.findall(data), re.sub(r"<[^>]*>", " ", data)]
    told += [text for _, kind, text in tokens if kind == "string" and SENTENCE.search(text)]
    assert {word for text in told for word in WORD.findall(text)} <= {"verifyd", *CLASSES}


def test_the_script_has_no_texts():
    """What it writes is in attributes of the templates."""
    script = (TEMPLATES.parent / "static" / "console.js").read_text()
    assert re.findall(r"\.textContent = (.*);", script) == ["button.dataset.copied"]


def test_a_receipt_has_one_time():
    """It is copied as text, where a second time beside it would have no explanation."""
    time = recorded("2026-07-29T23:00:12.5Z", ZoneInfo("Europe/Berlin"))
    assert time == "30 July 2026, 01:00:12 (Europe/Berlin)"


def test_dates_do_not_depend_on_the_locale():
    """Months and weekdays are words of the module."""
    assert in_words("2027-08-04", with_weekday=True) == "Wednesday, 4 August 2027"
