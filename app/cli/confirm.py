"""Asks before something is done that is hard to undo."""

import sys

from app.errors import OperatorError


def require_confirmation(question: str, *, is_given: bool) -> None:
    """Ask on the terminal, and go on only after a yes.

    Args:
        is_given: the operator has confirmed already, with `--yes`.

    Raises OperatorError after any other answer, or if there is no terminal to ask on.
    """
    if is_given:
        return
    if not sys.stdin.isatty():
        raise OperatorError("there is no terminal to ask on; to confirm, add --yes")
    # On stderr: stdout is for what the command prints.
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise OperatorError("nothing was changed")
