"""The words of an option file, split as a shell splits them (D60)."""

import pytest

from app.registers.options import words_of
from tests.rows import each_row

TEXTS = {
    "--rejects /var/r#nat.csv --mode replace": ["--rejects", "/var/r#nat.csv", "--mode", "replace"],
    "# don't\n--mode replace # it's\n  # \"one more": ["--mode", "replace"],
    "'a'#b \"c\"#d e#": ["a#b", "c#d", "e#"],
    '\'# a\' "# b" "c \\" # d"': ["# a", "# b", 'c " # d'],
    "\\# a \\#b": ["#", "a", "#b"],
    "'a\n# b' c\n#d\ne": ["a\n# b", "c", "e"],
    "a ## b\n##c\nd": ["a", "d"],
    "#": [],
    "a\t#b": ["a"],
}


@each_row(("text", "words"), TEXTS.items())
def test_a_comment_begins_with_a_word(text, words):
    """A comment begins at the start of a line or after white space, outside of quotes."""
    assert words_of(text) == words


@each_row("text", ["'a # b", "it's #x", 'a "b \\" # c', "a \\"])
def test_an_open_quote_is_refused(text):
    """An open quote is refused; a # after it does not begin a comment that hides it."""
    with pytest.raises(ValueError, match="No "):
        words_of(text)
