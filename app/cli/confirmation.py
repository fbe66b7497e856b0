"""Asking before a command destroys data."""

import argparse
import sys

from app.errors import OperatorError


def add_yes(command: argparse.ArgumentParser) -> None:
    """Add `--yes`, which answers the question of `confirm`."""
    command.add_argument("--yes", action="store_true", help="do not ask")


def confirm(args: argparse.Namespace, question: str) -> None:
    """Ask on the terminal, unless `--yes` is given. Raises OperatorError unless the answer is yes.

    Without a terminal nobody can answer: then `--yes` is needed.
    """
    if args.yes:
        return
    if not sys.stdin.isatty():
        raise OperatorError("nothing was changed: without a terminal, confirm with --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise OperatorError("nothing was changed")
