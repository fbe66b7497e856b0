"""All texts of the look-up page are in one module, so that a language can be added (D191)."""

import re

import jinja2
import pytest

from app.console.look_up_texts import in_words
from tests.contract.pages import ROOT

TEMPLATES = ROOT / "app" / "console" / "templates"
WORD = re.compile(r"[A-Za-z]{2,}")
SPOKEN = re.compile(r'(?:aria-label|data-title|title|placeholder|alt)="([^"]*)"')
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


def test_dates_do_not_depend_on_the_locale():
    """Months and weekdays are words of the module."""
    assert in_words("2027-08-04", with_weekday=True) == "Wednesday, 4 August 2027"
