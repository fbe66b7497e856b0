"""Write the man pages from what `--help` says, and from pages of docs/.

    .venv/bin/python deploy/man_pages.py

Run it when a command, an option, a setting, a part of these pages or the version has changed: until
then tests/contract fails. The same text gives the same bytes on all versions of Python.
"""

import argparse
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from app.arguments import Parser
from app.cli import COMMANDS, build_parser
from app.version import VERSION

DEPLOY = Path(__file__).parent
MAN = DEPLOY / "man"
WIDTH = 79
Part = tuple[str, str]
"""A page of docs/, and the heading of a part of it."""
COMMANDS_PART = ("commands.md", "Commands")
SETTINGS_PART = ("settings.md", "All settings")
FILES_PART = ("files.md", "Files")
ON_EACH_PAGE = ("`/etc/verifyd/verifyd.env`", "`/opt/verifyd/current/docs/`", "`/var/lib/")
"""How those rows about files begin."""
_ESCAPES = str.maketrans(
    {"\\": r"\e", "-": r"\-", "'": r"\(aq", '"': r"\(dq", "^": r"\(ha", "~": r"\(ti"}
)


def main() -> None:
    """Replace the pages in deploy/man."""
    written = pages()
    for old in MAN.glob("man?/*"):
        old.unlink()
    for name, source in written.items():
        (MAN / name).parent.mkdir(parents=True, exist_ok=True)
        (MAN / name).write_text(source, encoding="ascii")


def pages() -> dict[str, str]:
    """Return the source of each page by its path, such as `man1/verifyd-import.1`."""
    program = build_parser()
    (group,) = _groups(program)
    summaries = {each.dest: each.help or "" for each in group._choices_actions}
    made = {"man1/verifyd.1": _program_page(program, summaries)}
    for names in COMMANDS.values():
        for name in names:
            related = [each for each in names if each != name]
            page = _command_page(name, summaries[name], group.choices[name], related)
            made[f"man1/verifyd-{name}.1"] = page
    made["man5/verifyd.env.5"] = _settings_page()
    return made


def _program_page(parser: Parser, summaries: Mapping[str, str]) -> str:
    described = parser.description or ""
    sections = {
        "SYNOPSIS": [_lines([parser.usage_line()])],
        "DESCRIPTION": [_paragraph(_plain(described)), *_prose(COMMANDS_PART)],
        "OPTIONS": _arguments(parser),
        "COMMANDS": [
            _item(_reference(f"verifyd-{name}(1)"), _plain(summary))
            for name, summary in summaries.items()
        ],
        "EXIT STATUS": _exit_statuses(""),
        "FILES": _items(_rows(FILES_PART)),
        "SEE ALSO": [_see_also("verifyd.env(5)")],
    }
    return _page("verifyd", 1, described[0].lower() + described[1:].rstrip("."), sections)


def _command_page(name: str, summary: str, parser: Parser, related: Iterable[str]) -> str:
    """Return the page of a command, or of a group of commands.

    Args:
        related: other commands that the page leads to.
    """
    leaves = list(_leaves(parser))
    examples = [line.strip() for leaf in leaves for line in str(leaf.epilog).splitlines()[1:]]
    is_group = bool(_groups(parser))
    others = (f"verifyd-{each}(1)" for each in related)
    sections = {
        "SYNOPSIS": [_lines(leaf.usage_line() for leaf in leaves)],
        "DESCRIPTION": _description(parser),
        "OPTIONS": () if is_group else _arguments(parser),
        "COMMANDS": _subcommands(leaves) if is_group else (),
        "EXIT STATUS": _exit_statuses(name),
        "FILES": _files(name),
        "EXAMPLES": [_lines(examples)],
        "SEE ALSO": [_see_also("verifyd(1)", *others, "verifyd.env(5)")],
    }
    return _page(f"verifyd-{name}", 1, summary, sections)


def _settings_page() -> str:
    sections = {
        "SYNOPSIS": [_paragraph(_bold("/etc/verifyd/verifyd.env"))],
        "DESCRIPTION": _prose(SETTINGS_PART),
        "SETTINGS": _items(_rows(SETTINGS_PART)),
        "FILES": _items(
            row
            for row in _rows(FILES_PART)
            if row[0].startswith((*ON_EACH_PAGE, "`/etc/credstore/"))
        ),
        "SEE ALSO": [_see_also("verifyd(1)", "verifyd-check(1)")],
    }
    return _page("verifyd.env", 5, "settings of verifyd", sections)


def _page(name: str, number: int, summary: str, sections: Mapping[str, Iterable[str]]) -> str:
    """Return the source of a page, whose date is that of the version in the changelog."""
    changelog = (DEPLOY.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    (date,) = re.findall(rf"(?m)^## \[{re.escape(VERSION)}\] - (\S+)$", changelog)
    lines = [f'.TH {name.upper()} {number} {date} "verifyd {VERSION}"']
    # Names of rules and options are not hyphenated, and lines are not justified.
    lines += [".nh", ".ad l", ".SH NAME", _filled(rf"{_plain(name)} \- {_plain(summary)}")]
    for title, blocks in sections.items():
        told = list(blocks)
        lines += [f".SH {title}", *told] if told else []
    # The first paragraph below a heading begins without a macro.
    return re.sub(r"(?m)^(\.S[HS] .*\n)\.PP\n", r"\1", "\n".join([*lines, ""]))


# Sections.


def _description(parser: Parser) -> Iterator[str]:
    summary, _, details = str(parser.description).partition("\n\n")
    yield _paragraph(_plain(f"{summary[0].upper()}{summary[1:]}."))
    if "\n " in details:
        yield _lines(details.splitlines())  # a table
    elif details:
        yield _paragraph(_plain(details))


def _subcommands(parsers: Iterable[Parser]) -> Iterator[str]:
    for parser in parsers:
        yield f".SS {_plain(parser.prog)}"
        yield from _description(parser)
        yield from _arguments(parser)


def _arguments(parser: Parser) -> Iterator[str]:
    """Yield the arguments of a command, then its options."""
    for action in sorted(parser._actions, key=lambda each: bool(each.option_strings)):
        if isinstance(action, (argparse._HelpAction, argparse._SubParsersAction)):
            continue
        # A line can be broken between choices.
        value = rf"\fI{_plain(Parser.value_of(action))}\fR".replace("|", r"|\:")
        names = ", ".join(map(_bold, action.option_strings))
        tag = names if action.nargs == 0 else f"{names} {value}".lstrip()
        yield _item(tag, _plain(str(action.help) % vars(action)))


def _exit_statuses(command: str) -> Iterator[str]:
    rows = list(_rows(("commands.md", "Exit status")))
    yield from _items(row for row in rows if "verifyd" not in row[0])
    further = [row for row in rows if _is_about(command, row[0])]
    if further:
        yield _paragraph(_markdown("Status `1` also means:"))
        yield from _items(further)


def _files(command: str) -> Iterator[str]:
    yield from _items(
        row
        for row in _rows(FILES_PART)
        if row[0].startswith(ON_EACH_PAGE) or _is_about(command, " ".join(row))
    )


def _see_also(*pages: str) -> str:
    return _paragraph(", ".join(map(_reference, pages)))


# What the parser and the page say.


def _groups(parser: argparse.ArgumentParser) -> "list[argparse._SubParsersAction[Parser]]":
    return [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]


def _leaves(parser: Parser) -> Iterator[Parser]:
    """Yield the commands below a parser, or the parser itself if it is one."""
    groups = _groups(parser)
    for group in groups:
        for command in group.choices.values():
            yield from _leaves(command)
    if not groups:
        yield parser


def _text(part: Part) -> str:
    """Return a part of a page, up to the next heading."""
    name, title = part
    page = (DEPLOY / "docs" / name).read_text(encoding="utf-8")
    (text,) = re.findall(rf"(?ms)^#+ {title}\n(.*?)(?=^#|\Z)", page)
    return str(text)


def _rows(part: Part) -> Iterator[Sequence[str]]:
    """Yield the rows of all tables in a part of a page."""
    for table in re.findall(r"(?m)^\|[-|]+\|\n((?:\|.*\n)+)", _text(part)):
        for line in table.splitlines():
            yield line.strip("| ").split(" | ")


def _prose(part: Part) -> Iterator[str]:
    """Yield the paragraphs and the items of lists in a part of a page."""
    text = re.sub(r"(?m)^\|.*\n", "", _text(part))
    for block in re.split(r"\n{2,}", text.strip()):
        first, *items = re.split(r"(?m)^- ", block)
        if first:
            yield _paragraph(_markdown(first))
        yield from (f".IP \\(bu 2\n{_filled(_markdown(item))}" for item in items)


def _is_about(command: str, text: str) -> bool:
    """Tell whether a text names a command; `verifyd import` is not `verifyd imports`."""
    return re.search(rf"`verifyd {command}\b", text) is not None


# Roff.


def _items(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield rows as items: the first cell, the last one, and those between them in brackets."""
    for name, *others, text in rows:
        bracketed = "".join(f" [{other}]" for other in others)
        yield _item(_markdown(name), _markdown(text + bracketed))


def _item(tag: str, text: str) -> str:
    return f".TP\n{tag}\n{_filled(text)}"


def _paragraph(text: str) -> str:
    return f".PP\n{_filled(text)}"


def _lines(lines: Iterable[str]) -> str:
    return "\n".join([".PP", ".nf", *map(_plain, lines), ".fi"])


def _filled(text: str) -> str:
    wrapped = textwrap.wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrapped)


def _reference(page: str) -> str:
    """Return a page such as `verifyd(1)`, with its name in bold."""
    name, _, section = page.partition("(")
    return f"{_bold(name)}({section}"


def _bold(text: str) -> str:
    return rf"\fB{_plain(text)}\fR"


def _markdown(text: str) -> str:
    """Return Markdown as roff. A link becomes its text, and the page that it leads to."""
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", _plain(text))
    return re.sub(
        r"\[([^\]]+)\]\(([^#)]*)[^)]*\)",
        lambda link: f"{link[1]} ({link[2]})" if link[2] else link[1],
        text,
    )


def _plain(text: str) -> str:
    """Return a text as roff. Hyphens and quotes stay as they are typed."""
    # A line that begins with a point would be a request.
    return re.sub(r"(?<!\S)\.", r"\\&.", text.translate(_ESCAPES))


if __name__ == "__main__":
    main()
