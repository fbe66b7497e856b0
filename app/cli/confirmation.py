"""Questions before a command destroys data."""

import argparse
import sys

from app.errors import OperatorError


def add_yes(command: argparse.ArgumentParser) -> None:
    """Add `--yes`, which answers the question of `confirm`."""
    command.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def confirm(args: argparse.Namespace, question: str) -> None:
    """Ask at the terminal, unless `--yes` is given. Raises OperatorError if the answer is not yes.

    Without a terminal nobody can answer, so `--yes` is required.
    """
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise OperatorError("nothing was changed: without a terminal, confirm with --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise OperatorError("nothing was changed")
