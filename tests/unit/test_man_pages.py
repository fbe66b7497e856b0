"""How the texts of commands and pages become the source of a man page."""

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from app.arguments import Argument, Parser, flag

ROOT = Path(__file__).parents[2]


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that writes the pages."""
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    return importlib.import_module("man_pages")


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("--as-of 'day'", r"\-\-as\-of \(aqday\(aq"),
        (r"^\w+~", r"\(ha\ew+\(ti"),
        (".gz or a.csv .zip", r"\&.gz or a.csv \&.zip"),
        ("...", r"\&..."),
    ],
)
def test_a_text_is_shown_as_it_was_typed(writer: ModuleType, text: str, source: str) -> None:
    """Hyphens and quotes can be copied from a page, and no line begins a request of roff."""
    assert writer._plain(text) == source


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("as `VERIFYD_BIND` says", r"as \fBVERIFYD_BIND\fR says"),
        ("[Held](refused.md#held-loads) files", "Held (refused.md) files"),
        ("where [alerts](#alerts) go", "where alerts go"),
        ("[`a-b`](several-hosts.md)", r"\fBa\-b\fR (several\-hosts.md)"),
    ],
)
def test_markdown_becomes_bold_words_and_names_of_pages(
    writer: ModuleType, text: str, source: str
) -> None:
    """A link leads to a page, which is beside the program on a host without internet."""
    assert writer._markdown(text) == source


def test_a_row_is_an_item_with_its_default_in_brackets(writer: ModuleType) -> None:
    """The first cell names it, the last one explains it, as in the help of an option."""
    rows = [["`VERIFYD_BIND`", "`unix:/PATH`", "where `serve` listens"]]
    assert list(writer._items(rows)) == [
        ".TP\n\\fBVERIFYD_BIND\\fR\nwhere \\fBserve\\fR listens [\\fBunix:/PATH\\fR]"
    ]


def test_arguments_come_before_options_with_values_and_defaults(writer: ModuleType) -> None:
    """A flag has no value, choices can be broken between lines, and the help has its default."""
    parser = Parser(prog="verifyd do", add_help=False)
    for argument in (
        flag("--all", "everything"),
        Argument("--mode", "how [%(default)s]", choices=["fast", "slow"], default="slow"),
        Argument("PLACE", "where", nargs="?"),
    ):
        argument.add_to(parser)
    assert list(writer._arguments(parser)) == [
        ".TP\n\\fI[PLACE]\\fR\nwhere",
        ".TP\n\\fB\\-\\-all\\fR\neverything",
        ".TP\n\\fB\\-\\-mode\\fR \\fIfast|\\:slow\\fR\nhow [slow]",
    ]


@pytest.mark.parametrize(
    ("command", "text", "is_about"),
    [
        ("import", "`verifyd import --drop`", True),
        ("import", "`verifyd imports list`", False),
        ("watch", "`verifyd watchlist import`", False),
        ("", "`verifyd lookup`", True),
        ("", "`verifyd.service`", False),
    ],
)
def test_a_row_belongs_to_the_command_that_it_names(
    writer: ModuleType, command: str, text: str, is_about: bool
) -> None:
    """A longer name is another command; the page of the program has the rows of all commands."""
    assert writer._is_about(command, text) is is_about
