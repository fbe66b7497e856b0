"""The command line: `verifyd`, also `python -m app`.

Exit status 0; 1 if the command failed, its reason on stderr; 2 if it was not understood.
"""

import argparse
import os
import sys
from collections.abc import Sequence

import peewee

from app.cli import (
    accounts,
    backup,
    copy,
    demo,
    domains,
    imports,
    limits,
    lookup,
    service,
    version,
)
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
        print(error, file=sys.stderr)
        return _FAILED
    except (peewee.DatabaseError, peewee.InterfaceError) as error:
        print(f"the database cannot be used: {error}", file=sys.stderr)
        return _FAILED
    except BrokenPipeError:
        # Whoever read our output has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except OSError as error:
        print(error, file=sys.stderr)
        return _FAILED
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return _FAILED
    return 0


def build_parser() -> argparse.ArgumentParser:
    """Return the parser with every command."""
    parser = argparse.ArgumentParser(
        prog="verifyd", description="Domains and vehicle verification over HTTP."
    )
    commands: Commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands")
    groups = (service, demo, imports, lookup, accounts, limits, domains, backup, copy, version)
    for group in groups:
        group.add_commands(commands)
    return parser
