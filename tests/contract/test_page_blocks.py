"""The pages' links, commands and example files work."""

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import PurePosixPath
from posixpath import normpath

import yaml

from tests.contract.pages import PAGES, ROOT, Block, anchors, blocks, links, quoted, without_blocks
from tests.contract.test_pages import PARSER, commands, usage
from tests.rows import each_row

BLOCKS = [block for page in PAGES for block in blocks(page)]
# All other languages are output, or tested elsewhere (nginx, nft, sql).
UNDERSTOOD = {"json": json.loads, "toml": tomllib.loads, "yaml": yaml.safe_load}
PLACEHOLDERS = {"ID": "17", "NAME": "name"}


def shell(block: Block) -> str:
    """Return the lines that a block asks its reader to type."""
    if block.language == "sh":
        return block.text
    typed = re.findall(r"(?m)^\$ (.*)$", block.text)
    return "".join(f"{line}\n" for line in typed)


def programs(script: str) -> Iterator[list[str]]:
    """Return the programs that a script runs, as words, without its here-documents."""
    script = re.sub(r"(?ms)<<(\w+)\n.*?^\1$", "", script).replace("\\\n", " ")
    for line in script.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
        lexer.whitespace_split = True
        words: list[str] = []
        for word in lexer:
            if set(word) <= set("();|&"):
                yield words
                words = []
            else:
                words.append(word)
        yield words


def arguments(words: list[str]) -> list[str] | None:
    """Return the arguments of a `verifyd` call, without redirections."""
    if words[:3] == ["sudo", "-u", "verifyd"]:
        words = words[3:]
    while words and (words[0] in ("sudo", "env") or re.match(r"\w+=", words[0])):
        words = words[1:]
    if not words or PurePosixPath(words[0]).name != "verifyd":
        return None
    ends = [n for n, word in enumerate(words) if word in ("<", ">", ">>")]
    return [PLACEHOLDERS.get(word, word) for word in words[1 : ends[0] if ends else None]]


SHELL = [block for block in BLOCKS if block.language in ("sh", "console")]
CALLS = sorted(
    {
        (block.page, shlex.join(found))
        for block in SHELL
        if not block.text.startswith("#!")  # A script, which other tests run.
        for words in programs(shell(block))
        if (found := arguments(words)) is not None
    }
)
INLINE = sorted(
    {
        (page, word)
        for page, text in PAGES.items()
        for word in quoted(text)
        if re.match(r"(sudo )?verifyd [a-z]", word) and "COMMAND" not in word
    }
)


@each_row("page", PAGES)
def test_links_lead_somewhere(page):
    """A link leads to a file of the repository, and to a heading in it."""
    broken = []
    for target in links(page):
        path, _, anchor = target.partition("#")
        there = normpath(PurePosixPath(page).parent / path) if path else page
        if not (ROOT / there).exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []


@each_row("block", SHELL, ids=lambda block: f"{block.page}: {block.text[:40]!r}")
def test_the_shell_understands_each_block(block):
    """Commands on a page have no syntax errors."""
    subprocess.run(["bash", "-n"], input=shell(block).encode(), check=True)


def test_the_calls_are_found():
    """Calls on the operator's page are found in full."""
    calls = {call for _, call in CALLS}
    assert {"migrate", "accounts create acme", "notify --test"} <= calls
    assert "import - --format native-ndjson --kind policies" in calls
    assert "backup /var/lib/verifyd/with-registers --registers" in calls


@each_row(("page", "call"), CALLS)
def test_calls_in_blocks_are_understood(page, call):
    """Calls of the program can be typed as they are."""
    PARSER.parse_args(shlex.split(call))


@each_row(("page", "call"), INLINE)
def test_calls_in_sentences_are_understood(page, call):
    """A call in a sentence, perhaps in part, names an existing command and its options."""
    words = shlex.split(call.removeprefix("sudo "))[1:]
    known = list(commands(PARSER))
    names = tuple(words[: next((n for n, word in enumerate(words) if not word.islower()), None)])
    whole = [each for each in known if each == names[: len(each)]]
    assert whole or any(each[: len(names)] == names for each in known), call
    options = [word.partition("=")[0] for word in words if word.startswith("--")]
    for option in options:
        assert option in usage(whole[0])._option_string_actions, call


@each_row(
    "block",
    [block for block in BLOCKS if block.language in UNDERSTOOD],
    ids=lambda block: f"{block.page}: {block.text[:40]!r}",
)
def test_files_in_blocks_are_well_formed(block):
    """JSON, TOML and YAML on a page can be parsed."""
    UNDERSTOOD[block.language](block.text)


@each_row("page", PAGES)
def test_the_rows_of_a_table_have_as_many_cells_as_its_header(page):
    """A bar in a cell would split it, even in backticks."""
    for found in re.findall(r"(?m)(?:^\|.*\n)+", without_blocks(PAGES[page])):
        assert len({row.count("|") for row in found.splitlines()}) == 1, found[:200]
