"""Counts what one person has to hold in the head: `python -m tests.size [TREE]`.

Lines of code are lines that hold a token of the program: no blank lines, comments or docstrings.
"""

import argparse
import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_PAGES = ("*.md", "app/*.md", "deploy/**/*.md", "findings/*.md")
_COUNTED = {"citations of decisions": r"\bD[0-9]+\b", "uses of Any": r"\bAny\b"}
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def code_lines(source: str) -> int:
    """Return how many lines of a module hold code."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for text in _texts(ast.parse(source)):
        lines.difference_update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(lines)


def _texts(tree: ast.Module) -> Iterator[ast.Expr]:
    """Yield docstrings, and the texts that explain an attribute or a constant."""
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED):
            for child in node.body:
                match child:
                    case ast.Expr(value=ast.Constant(value=str())):
                        yield child


def modules(tree: Path) -> Iterator[tuple[str, int]]:
    """Yield the path and the lines of code of each module of the program."""
    for path in sorted((tree / "app").rglob("*.py")):
        if lines := code_lines(path.read_text("utf-8")):
            yield str(path.relative_to(tree)), lines


def room_of(module: str) -> str:
    """Return the directory directly below `app/` that holds a module, or `app` for none."""
    parts = module.split("/")
    return parts[1] if len(parts) > 2 else "app"


def main() -> None:
    """Print the counts of a tree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tree", nargs="?", type=Path, default=Path(__file__).parents[1])
    tree: Path = parser.parse_args().tree
    sizes = dict(modules(tree))
    rooms: Counter[str] = Counter()
    for module, lines in sizes.items():
        rooms[room_of(module)] += lines
    for room, lines in rooms.most_common():
        count = sum(room_of(module) == room for module in sizes)
        print(f"{lines:7,}  lines in {count:3} modules of {room}")
    print(f"{sum(rooms.values()):7,}  lines in {len(sizes):3} modules")
    print(f"{sum(lines < 60 for lines in sizes.values()):7,}  modules with fewer than 60 lines")
    words = 0
    for path in sorted(path for pattern in _PAGES for path in tree.glob(pattern)):
        words += (count := len(path.read_text("utf-8").split()))
        print(f"{count:7,}  words in {path.relative_to(tree)}")
    print(f"{words:7,}  words in all pages")
    sources = "\n".join(path.read_text("utf-8") for path in (tree / "app").rglob("*.py"))
    for what, pattern in _COUNTED.items():
        print(f"{len(re.findall(pattern, sources)):7,}  {what} in the code")


if __name__ == "__main__":
    main()
