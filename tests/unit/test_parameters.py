"""Query parameters: each at most once, each checked."""

from contextlib import suppress

import falcon.testing
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.clock import parse_iso_date
from app.errors import Problem
from app.serve.http.context import Request
from app.serve.http.parameters import (
    choice_parameter,
    date_parameter,
    flag_parameter,
    integer_parameter,
    text_parameter,
)
from tests.rows import each_row

READERS = {
    "text": text_parameter,
    "date": date_parameter,
    "integer": lambda req, name: integer_parameter(req, name, 1, 1_000),
    "choice": lambda req, name: choice_parameter(req, name, ("red", "green")),
    "flag": flag_parameter,
}


def request(query):
    return Request({**falcon.testing.create_environ(), "QUERY_STRING": query})


def refusal(read, query):
    """Return the refusal of the parameter `p` in a query."""
    with pytest.raises(Problem) as caught:
        read(request(query), "p")
    return caught.value


@each_row("kind", READERS)
@each_row("query", ["", "q=1", "P=1", "p2=1"])
def test_an_absent_parameter_is_none(kind, query):
    """A parameter that is absent has no value; a flag is off."""
    assert READERS[kind](request(query), "p") == (False if kind == "flag" else None)


@each_row("kind", READERS)
@each_row("query", ["p=1&p=1", "p=1&q=2&p=3", "p=&p=", "p&p"])
def test_a_parameter_given_twice_is_refused(kind, query):
    """Two values are refused, even equal ones, because the meaning is unclear."""
    problem = refusal(READERS[kind], query)
    assert problem.code == "invalid_parameter"
    assert problem.detail == "The parameter p is given more than once."


@each_row(
    ("query", "text"),
    [
        ("p=a", "a"),
        ("p=", ""),
        ("p", ""),
        ("p=a+b", "a b"),
        ("p=a%20b", "a b"),
        ("p=a,b", "a,b"),
        ("p=%C3%BC", "ü"),
        ("p=%FF", "\ufffd"),
        ("p=a%26b", "a&b"),
        ("p=a=b", "a=b"),
    ],
)
def test_a_text_is_decoded(query, text):
    """Percent encoding and plus signs are decoded; a comma does not make a list."""
    assert text_parameter(request(query), "p") == text


@each_row(("query", "number"), [("p=1", 1), ("p=1000", 1_000), ("p=007", 7), ("p=%31", 1)])
def test_an_integer_within_its_limits_is_taken(query, number):
    """Both limits are included."""
    assert integer_parameter(request(query), "p", 1, 1_000) == number


@each_row(
    "value",
    ["", "0", "1001", "00001", "-1", "%2B1", "+1", "1+", "1.0", "1e2", "0x1", "1_0", "%C2%B2", "x"],
)
def test_another_integer_is_refused(value):
    """Only digits are accepted, and no more than the greatest number has."""
    problem = refusal(READERS["integer"], f"p={value}")
    assert problem.code == "invalid_parameter"
    assert problem.detail == "The parameter p must be a whole number from 1 to 1,000."


def test_an_integer_of_any_length_is_refused_quickly():
    """Thousands of digits are refused quickly, without an error."""
    assert refusal(READERS["integer"], "p=" + "9" * 100_000).code == "invalid_parameter"


@each_row("text", ["2026-01-01", "2024-02-29", "0001-01-01", "9999-12-31"])
def test_a_date_of_the_calendar_is_taken(text):
    """A date is returned as the same text."""
    assert date_parameter(request(f"p={text}"), "p") == text


@each_row(
    "value",
    [
        "",
        "2026-1-1",
        "20260101",
        "2026-W01-1",
        "2026-001",
        "26-01-01",
        "2026/01/01",
        "2026-01-01T00:00:00Z",
        "2026-01-01+",
        "2026-01-01%0A",
        "%D9%A2026-01-01",
        "-2026-01-01",
        "today",
    ],
)
def test_another_date_is_refused(value):
    """Only YYYY-MM-DD is accepted."""
    problem = refusal(date_parameter, f"p={value}")
    assert problem.code == "invalid_parameter"
    assert problem.detail == "The parameter p must be a day as YYYY-MM-DD, such as 2026-12-31."


@each_row("value", ["2026-02-29", "2026-13-01", "2026-00-10", "0000-01-01"])
def test_a_day_that_does_not_exist_is_refused(value):
    """The form is right, and the calendar has no such day."""
    problem = refusal(date_parameter, f"p={value}")
    assert problem.code == "invalid_parameter"
    assert problem.detail == "The parameter p names a day that does not exist."


@given(st.dates())
def test_every_date_is_an_iso_date(day):
    """All days of the calendar are accepted, and no text around them."""
    assert parse_iso_date(day.isoformat()) == day
    assert parse_iso_date(f"{day.isoformat()} ") is None


@each_row("value", ["", "Red", "red ", "red,green", "blue"])
def test_a_choice_is_one_of_its_words(value):
    """The refusal lists the words."""
    assert choice_parameter(request("p=red"), "p", ("red", "green")) == "red"
    problem = refusal(READERS["choice"], f"p={value}")
    assert problem.detail == "The parameter p must be red or green."


@each_row(
    ("value", "is_set"),
    [
        *(("true", True), ("True", True), ("TRUE", True), ("1", True)),
        *(("false", False), ("False", False), ("FALSE", False), ("0", False)),
    ],
)
def test_a_flag_is_true_or_false(value, is_set):
    """The spellings of the usual languages are accepted."""
    assert flag_parameter(request(f"p={value}"), "p") is is_set


@each_row("value", ["", "yes", "tRUE", "on", "01", "2"])
def test_no_other_word_is_a_flag(value):
    """Any other word is refused."""
    assert refusal(flag_parameter, f"p={value}").code == "invalid_parameter"


@given(st.text(st.characters(max_codepoint=127), max_size=60))
def test_any_query_is_answered(query):
    """Any query is parsed or refused; no other error occurs."""
    for read in READERS.values():
        with suppress(Problem):
            read(request(query), "p")
