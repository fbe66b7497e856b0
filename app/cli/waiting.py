"""What a command says while somebody waits for it."""

import argparse
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 3
"""Without a terminal, a shorter wait is not worth a line."""


@contextmanager
def waiting_for(args: argparse.Namespace, what: str) -> Iterator[None]:
    """Say on stderr what a command waits for: at once at a terminal, otherwise after 3 s.

    A job says nothing without a terminal: its log has only events.
    NOTE: a thread does it, so do not fork meanwhile.
    """
    is_terminal = sys.stderr.isatty()
    if args.is_job and not is_terminal:
        yield
        return
    timer = threading.Timer(0 if is_terminal else PATIENCE_SECONDS, _say, [what])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        # NOTE: a thread that is left when Python ends needs libgcc, which the binary has not.
        timer.join()


def say_if_terminal_is_read(is_standard_input: bool) -> None:
    """Say that a command reads what is typed, which looks as if it did nothing."""
    if is_standard_input and sys.stdin.isatty():
        _say("standard input; end it with Ctrl-D")


def _say(what: str) -> None:
    print(f"waiting for {what}", file=sys.stderr, flush=True)
