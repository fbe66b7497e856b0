"""The command line: `verifyd`, also `python -m app`.

Exit status 0; 1 if the command failed, its reason on stderr and with `--json` on stdout, too; 2 if
it was not understood.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

import peewee

from app.cli import accounts, backup, copy, demo, domains, imports, limits, service, version
from app.cli.output import print_failure
from app.cli.parser import Commands
from app.errors import OperatorError

_FAILED = 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status."""
    args = build_parser().parse_args(argv)
    # SEC: databases, registers and rejects are nobody else's to read.
    os.umask(0o027)
    try:
        args.run(args)
        sys.stdout.flush()
    except OperatorError as error:
        return _failed(args, str(error), {"reason": error.sentence} | dict(error.details))
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        return _failed(args, f"the database cannot be used: {error}")
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except OSError as error:
        return _failed(args, str(error))
    except KeyboardInterrupt:
        return _failed(args, "interrupted")
    return 0


def _failed(
    args: argparse.Namespace, message: str, members: Mapping[str, object] | None = None
) -> int:
    """Tell why a command failed: on stderr, and with `--json` as a document on stdout, too."""
    print(message, file=sys.stderr)
    with suppress(OSError):
        print_failure(args, members or {"reason": message})
    return _FAILED


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with every command."""
    parser = argparse.ArgumentParser(
        prog="verifyd", description="Domains and vehicle verification over HTTP."
    )
    commands: Commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    for group in (service, demo, imports, accounts, limits, domains, backup, copy, version):
        group.add_commands(commands)
    return parser
