"""Texts of the console and columns of files are as recorded, so that no change goes unnoticed.

If you mean a change, record it with `.venv/bin/python -m tests.contract.test_recorded`, and commit
the difference with it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest

from app.registers.formats import formats_of
from tests.contract.pages import ROOT

RECORDED = Path(__file__).parent / "recorded"
CONSOLE = ROOT / "app" / "console"
TEXT = re.compile(r"[A-Z][a-z]|[A-Za-z] [A-Za-z]")


def console_texts() -> Iterator[str]:
    """Yield each text of the console behind its file: of templates, then of modules."""
    lex = jinja2.Environment(autoescape=True).lex
    for path in sorted((CONSOLE / "templates").rglob("*.html")):
        tokens = [(kind, text) for _, kind, text in lex(path.read_text(encoding="utf-8"))]
        marked = "".join(text if kind == "data" else "\n" for kind, text in tokens)
        texts = re.split(r"<[^>]*>|\n", marked)
        texts += [text[1:-1] for kind, text in tokens if kind == "string" and TEXT.search(text)]
        yield from behind(path, texts)
    for path in sorted(CONSOLE.glob("*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        statements = {id(n.value) for n in ast.walk(module) if isinstance(n, ast.Expr)}
        yield from behind(
            path,
            [
                node.value
                for node in ast.walk(module)
                if isinstance(node, ast.Constant)
                and id(node) not in statements  # docstrings
                and isinstance(node.value, str)
                and TEXT.search(node.value)
            ],
        )


def behind(path: Path, texts: list[str]) -> Iterator[str]:
    """Yield the texts that have words, once and on one line each, behind the path of their file."""
    for text in dict.fromkeys(" ".join(each.split()) for each in texts):
        if re.search("[A-Za-z]{2}", text):
            yield f"{path.relative_to(CONSOLE)}: {text}"


def columns() -> Iterator[str]:
    """Yield each column of each format: what it is called, whether it is needed, and its dates."""
    for name, each in formats_of().items():
        for kind in sorted(each.kinds):
            for column in each.known_columns(kind).columns:
                names = " ".join(sorted(column.names))
                facts = [column.label, column.presence.name.lower(), column.date_form, names]
                yield f"{name} {kind}: {', '.join(filter(None, facts))}"


RECORDS = {"console_texts.txt": console_texts, "columns.txt": columns}
"""What is recorded, by the name of its file."""


@pytest.mark.parametrize("name", RECORDS)
def test_it_is_as_recorded(name: str) -> None:
    """A changed text of the console, or a changed column of a format, is seen before users do."""
    assert list(RECORDS[name]()) == (RECORDED / name).read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    for name, lines in RECORDS.items():
        (RECORDED / name).write_text("".join(f"{line}\n" for line in lines()), encoding="utf-8")
