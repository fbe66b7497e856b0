"""Draws mutations of the program, and tells which of them the tests notice.

    python -m tests.mutations draw 60 --seed 27 > mutations.json
    python -m tests.mutations run mutations.json [--tree TREE] [--only NUMBER...]

A mutation changes one expression or leaves out one call. Each room gets at least two. `run` changes
the tree in place, with the environment in its `.venv`, and changes it back. It runs the tests that
name the module first, then those of `make test`, until one fails.
"""

import argparse
import ast
import json
import random
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.size import room_of

_ROOT = Path(__file__).parents[1]
_PER_ROOM_MIN = 2
_NAMED_MAX = 40
"""How many test files that name a module are run first; more are no help."""
_COMPARED: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}
_CALCULATED: dict[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "//"}


class Mutation(NamedTuple):
    """One change: where, and the lines before and after."""

    module: str
    function: str
    line: int
    before: str
    after: str


def changes(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield the parts of a node that can be changed, each with its new text."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARED:
            yield node, f"{ast.unparse(left)} {_COMPARED[type(op)]} {ast.unparse(right)}"
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            yield node, "(" + word.join(f"({ast.unparse(each)})" for each in values) + ")"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield node, f"({ast.unparse(operand)})"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _CALCULATED:
            if not isinstance(left, ast.JoinedStr | ast.Constant) or not isinstance(
                getattr(left, "value", 0), str
            ):
                yield node, f"({ast.unparse(left)} {_CALCULATED[type(op)]} {ast.unparse(right)})"
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() as value):
            yield node, str(value + 1)
        case ast.If(test=test) if not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield test, f"not ({ast.unparse(test)})"
        case ast.Expr(value=ast.Call()):
            yield node, "pass"
        case _:
            pass


def _functions(tree: ast.AST, name: str = "") -> Iterator[tuple[str, ast.AST]]:
    """Yield each function with its name, but none that is within another."""
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.FunctionDef):
            yield f"{name}{child.name}", child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{name}{child.name}.")


def _changed(source: str, node: ast.AST, text: str) -> tuple[str, str] | None:
    """Return the line of a node before and after; None if it is on more than one line."""
    if not isinstance(node, ast.expr | ast.stmt) or node.lineno != node.end_lineno:
        return None
    line = source.splitlines()[node.lineno - 1].encode()
    after = line[: node.col_offset] + text.encode() + line[node.end_col_offset :]
    return line.decode(), after.decode()


def mutations_of(path: Path, module: str) -> Iterator[Mutation]:
    """Yield all mutations of the functions of a module."""
    source = path.read_text("utf-8")
    for name, function in _functions(ast.parse(source)):
        assert isinstance(function, ast.FunctionDef)
        for statement in function.body:
            for node in ast.walk(statement):
                for part, text in changes(node):
                    changed = _changed(source, part, text)
                    if changed and isinstance(part, ast.expr | ast.stmt):
                        yield Mutation(module, name, part.lineno, *changed)


def draw(tree: Path, count: int, seed: int) -> list[Mutation]:
    """Return mutations of all rooms; the same for the same tree and seed."""
    rooms: dict[str, list[Mutation]] = defaultdict(list)
    for path in sorted((tree / "app").rglob("*.py")):
        module = str(path.relative_to(tree))
        if "/migrations/" not in module and "/client-samples/" not in module:
            rooms[room_of(module)] += mutations_of(path, module)
    chance = random.Random(seed)
    drawn: list[Mutation] = []
    for room in sorted(rooms):
        drawn += chance.sample(rooms[room], _PER_ROOM_MIN)
    others = [each for room in sorted(rooms) for each in rooms[room] if each not in drawn]
    return drawn + chance.sample(others, count - len(drawn))


def killer(tree: Path, mutation: Mutation) -> str:
    """Return the first test that fails with a mutation; empty if it survives.

    The module is changed in place, because the tests start processes of the installed program.
    """
    path = tree / mutation.module
    source = path.read_text("utf-8")
    lines = source.split("\n")
    if lines[mutation.line - 1] != mutation.before:
        sys.exit(f"{mutation.module}:{mutation.line} is another line now")
    lines[mutation.line - 1] = mutation.after
    dotted = mutation.module.removesuffix(".py").replace("/", ".")
    named = [
        str(each.relative_to(tree))
        for each in sorted((tree / "tests").rglob("test_*.py"))
        if dotted in each.read_text("utf-8")
    ]
    try:
        path.write_text("\n".join(lines), "utf-8")
        return (_failed(tree, named[:_NAMED_MAX]) if named else "") or _failed(tree, [])
    finally:
        path.write_text(source, "utf-8")


def _failed(tree: Path, tests: list[str]) -> str:
    words = [str(tree / ".venv/bin/python"), "-m", "pytest", "-x", "-q", "-n", "3"]
    result = subprocess.run([*words, *tests], cwd=tree, capture_output=True, text=True, check=False)
    starts = ("FAILED ", "ERROR ", "SUBFAILED")
    failed = [line for line in result.stdout.splitlines() if line.startswith(starts)]
    return failed[0] if failed else ("" if result.returncode == 0 else result.stdout[-200:])


def main() -> None:
    """Draw mutations, or run the tests against them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", type=Path, default=_ROOT)
    steps = parser.add_subparsers(dest="step", required=True)
    drawing = steps.add_parser("draw")
    drawing.add_argument("count", type=int)
    drawing.add_argument("--seed", type=int, required=True)
    running = steps.add_parser("run")
    running.add_argument("file", type=Path)
    running.add_argument("--only", type=int, nargs="*")
    options = parser.parse_args()
    if options.step == "draw":
        drawn = [each._asdict() for each in draw(options.tree, options.count, options.seed)]
        print(json.dumps(drawn, indent=1))
        return
    survivors = 0
    mutations = [Mutation(**each) for each in json.loads(options.file.read_text())]
    for number, mutation in enumerate(mutations, 1):
        if options.only and number not in options.only:
            continue
        test = killer(options.tree, mutation)
        survivors += not test
        print(number, mutation.module, mutation.line, test or "SURVIVED", flush=True)
    print(f"{survivors} survived")


if __name__ == "__main__":
    main()
