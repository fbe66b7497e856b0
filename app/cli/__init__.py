"""The command line: `verifyd`, also `python -m app`.

Exit status: 0 if the command succeeded; 1 if it failed, with the reason on stderr and, with
`--json`, also on stdout; 2 if the arguments are wrong; 130 after Ctrl-C, 143 after TERM.
"""

import argparse
import importlib
import logging
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import peewee

from app.arguments import Parser
from app.cli.output import print_failure
from app.cli.parser import Commands
from app.errors import OperatorError, without_keys
from app.logs import StderrLines, command_log
from app.processes import swallowed_interrupts_raised_again
from app.storage.errors import message_of
from app.text import printable_lines
from app.version import line as version_line

COMMANDS: Mapping[str, Sequence[str]] = {
    "service": ("serve", "check", "migrate"),
    "demo": ("demo",),
    "loads": ("import",),
    "registers": ("imports",),
    "lookup": ("lookup",),
    "accounts": ("accounts", "plans", "keys"),
    "limits": ("limits",),
    "usage": ("usage",),
    "domains": ("domains",),
    "watches": ("sweep", "watchlist"),
    "audit": ("audit",),
    "actions": ("actions",),
    "backup": ("backup", "restore"),
    "notify": ("notify", "watch", "report"),
    "clock": ("clock",),
    "console": ("console",),
    "copy": ("copy",),
    "program": ("completion", "version"),
}
"""The modules of this package and the commands of each, in the order of `--help`."""
_FAILED = 1
_STOPPED = 128
"""A command that a signal ended has this exit status plus the number of the signal."""
_log = logging.getLogger("verifyd.cli")


def main(argv: Sequence[str] | None = None, *, catch_ctrl_c: bool = False) -> int:
    """Run one command and return its exit status.

    Args:
        catch_ctrl_c: let the command clean up on Ctrl-C; before and after, Ctrl-C ends the
            process at once.
    """
    argv = sys.argv[1:] if argv is None else argv
    args = argparse.Namespace(is_job=False)
    with command_log(lambda: args.is_job):
        try:
            build_parser(argv).parse_args(argv, args)
            # SEC: other users must not read databases, registers and rejects.
            os.umask(0o027)
            with swallowed_interrupts_raised_again(), _ctrl_c_caught(catch_ctrl_c):
                _run(args)
                sys.stdout.flush()
        except KeyboardInterrupt as stop:
            _report(args, "interrupted", {"reason": "interrupted"})
            return _STOPPED + (stop.args[0] if stop.args else signal.SIGINT)
        except BrokenPipeError:
            # The reader has closed the output, as `head` does.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return _FAILED
        except (OperatorError, OSError, peewee.DatabaseError, peewee.InterfaceError) as error:
            _report(args, *_message_of(error))
            return _FAILED
        except Exception as error:
            # Python has lone surrogates for such bytes. Only names of files may have them.
            if isinstance(error, UnicodeEncodeError) and error.object[error.start] in "".join(argv):
                reason = "an argument has bytes that are not UTF-8"
                _report(args, reason, {"reason": reason})
                return _FAILED
            # SEC: only the stack is logged, because the message can quote a record.
            _log.exception("unexpected %s", type(error).__name__)
            return _FAILED
    return 0


def _run(args: argparse.Namespace) -> None:
    """Run a command. Sweep the watches afterwards, when it has printed, and holds no lock."""
    if not args.sweeps:
        args.run(args)
        return
    # PERF: all other commands start without these modules.
    from app.jobs.drop_directory import NotAllLoaded  # noqa: PLC0415
    from app.jobs.sweeping import sweep_after_load  # noqa: PLC0415

    try:
        args.run(args)
    except NotAllLoaded:
        sweep_after_load()
        raise
    if args.sweeps:
        sweep_after_load()


@contextmanager
def _ctrl_c_caught(is_wanted: bool) -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C; afterwards Ctrl-C ends the process at once."""
    if is_wanted:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if is_wanted:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


def _message_of(error: Exception) -> tuple[str, Mapping[str, object]]:
    """Return the message of a failure, and its members for `--json`."""
    if isinstance(error, OperatorError):
        return str(error), {"reason": error.sentence} | dict(error.details)
    message = message_of(error)
    if not isinstance(error, OSError):
        message = f"the database cannot be used: {message}"
    elif error.filename and error.strerror:
        message = f"{os.fsdecode(error.filename)} cannot be used: {error.strerror}"
    return message, {"reason": message}


def _report(args: argparse.Namespace, message: str, members: Mapping[str, object]) -> None:
    """Report why a command failed: in a sentence, or for a job of a timer in a log line.

    With `--json` the members are a document on stdout, too.
    """
    # SEC: an argument that is repeated can be a key.
    message = without_keys(message)
    members = {**members, "reason": without_keys(str(members["reason"]))}
    # Nobody watches a timer. When somebody types a command, the reason is its answer.
    if args.is_job and getattr(args, "scheduled", True):
        _log.error("%s", message)
    else:
        # NOTE: a service that has begun to start logs everything that is written to `sys.stderr`.
        is_logged = isinstance(sys.stderr, StderrLines)
        text = printable_lines(message)
        print(text, file=sys.__stderr__ if is_logged else sys.stderr)
    with suppress(OSError):
        print_failure(args, members)


def build_parser(argv: Sequence[str] = ()) -> Parser:
    """Return the parser with every command.

    If `argv` begins with the name of a command, the parser has only the commands of its module.
    PERF: this halves the start of a command, because all modules take 0.3 s to import.
    """
    parser = Parser(prog="verifyd", description="Domains and vehicle verification over HTTP.")
    parser.add_argument(
        "--version",
        action="version",
        version=version_line(),
        help="print version and commit of the program, and exit",
    )
    commands: Commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    needed = [name for name, names in COMMANDS.items() if argv and argv[0] in names]
    for name in needed or COMMANDS:
        importlib.import_module(f"{__name__}.{name}").commands.add_to(commands)
    return parser
