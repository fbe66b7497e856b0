"""The page on where data comes from: each price and law has its source, or is not confirmed."""

import re

from tests.contract.pages import PAGES, ROOT, section
from tests.rows import each_row

PAGE = "deploy/docs/data-sources.md"
TEXT = PAGES[PAGE]
SOURCES = dict(re.findall(r"(?m)^([0-9]+)\. (.+)$", section(PAGE, "Sources")))
WORDS_MAX = 2_500


def rows(title: str) -> list[list[str]]:
    """Return the cells of each row of the first table in a section, without its header."""
    lines = re.findall(r"(?m)^\| (.+) \|$", section(PAGE, title))
    return [re.split(r" +\| +", line) for line in lines[1:]]


def is_told(text: str) -> bool:
    """Tell whether a text names a source, or says that there is none."""
    return re.search(r"\[[0-9]+\]|not confirmed|not read", text) is not None


def test_it_is_short():
    """A reader finishes it: it has at most 2,500 words."""
    assert len(TEXT.split()) <= WORDS_MAX


def test_it_says_whom_nobody_asked_and_when_it_was_read():
    """What was read in stored pages is not taken for the word of an agency."""
    assert "**No agency was asked, and nothing here was confirmed with one.**" in TEXT
    assert TEXT.count("read on 28 November 2026") == 2


def test_each_source_is_used_and_has_an_address():
    """Every number leads to a source, and every source but one to a page."""
    cited = set(re.findall(r"\[([0-9]+)\]", TEXT))
    assert cited == set(SOURCES)
    assert list(SOURCES) == [str(n) for n in range(1, len(SOURCES) + 1)]
    assert [n for n, text in SOURCES.items() if not re.search(r"`https?://[^`]+`", text)] == ["16"]


@each_row("cells", rows("What each register has"), ids=lambda cells: cells[0])
def test_each_price_has_its_source(cells):
    """So has how often a register comes, unless nobody delivers it as a file."""
    price, often = cells[6:]
    assert is_told(price)
    assert is_told(often) or "no file" in often


@each_row("cells", rows("Other published registers"), ids=lambda cells: cells[0])
def test_the_terms_of_each_register_have_their_source(cells):
    """What was not read is not stated."""
    assert is_told(cells[-1])


def test_the_readme_names_it_first():
    """Whoever has no data cannot use anything else."""
    first = section("README.md", "Read on").splitlines()[3]
    assert first.endswith("| [Where data comes from](deploy/docs/data-sources.md) |")


def test_the_script_downloads_what_the_page_names():
    """The addresses of the datasets are those of the page."""
    script = (ROOT / "deploy" / "fetch-open-data.sh").read_text(encoding="utf-8")
    for register, title in (("rdw", "Netherlands: RDW"), ("nyc", "New York City")):
        (site, dataset) = re.findall(
            rf"(?s):{register}:.*?\n *site=(\S+)\n *dataset=(\S+)\n", script
        )[0]
        assert f"dataset `{dataset}` of `{site}`" in section(PAGE, title)
