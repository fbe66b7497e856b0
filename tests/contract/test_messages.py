"""Messages quote commands in one way."""

import ast
import re
from collections.abc import Iterator

from tests.contract.pages import ROOT

IN_BACKTICKS = "`verifyd "


def texts(tree: ast.AST) -> Iterator[str]:
    """Yield the texts of a module, without its docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            yield str(node.value)


def test_a_command_in_a_message_is_in_double_quotes() -> None:
    """A terminal shows backticks as they are, and pasted into a shell they run the command."""
    modules = [*(ROOT / "app").rglob("*.py")]
    scripts = [*(ROOT / "deploy").glob("*.sh")]
    assert modules
    assert scripts
    for path in modules:
        for text in texts(ast.parse(path.read_bytes())):
            assert IN_BACKTICKS not in text, f"{path} quotes a command in backticks: {text}"
    for path in scripts:
        # Only comments have backticks that are not escaped.
        assert not re.search(r"\\`", path.read_text()), f"{path} quotes a command in backticks"
