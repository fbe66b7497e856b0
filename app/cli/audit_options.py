"""What the commands of the audit trail have in common: options, and the record of their use."""

import argparse
from pathlib import Path

from app import clock
from app.actions import session
from app.audit import trail
from app.audit.chain import parsed_digest, read_chain
from app.audit.owner import Owner, find_owner, require_host
from app.audit.record import Criteria, Record, time_of
from app.audit.search import Period, first_moment, last_moment, until_now
from app.audit.segments import list_segments
from app.audit.state import claim_for_command
from app.cli.parser import Parser
from app.config import Config
from app.errors import OperatorError
from app.storage.session import opened_database


def add_directories(command: Parser) -> None:
    """Add `--directory`, which can be given several times."""
    command.add_argument(
        "--directory",
        metavar="DIR",
        type=Path,
        action="append",
        help="directory of a trail, given once for each host [VERIFYD_AUDIT_DIR]",
    )


def add_period(command: Parser, default: str = "all") -> None:
    """Add `--from` and `--to`.

    Args:
        default: the period without `--from`, for the help.
    """
    command.add_argument(
        "--from",
        dest="since",
        metavar="TIME",
        type=_since,
        help=f"first day (UTC) or time, such as 2026-11-01 or 2026-11-01T15:00Z [{default}]",
    )
    command.add_argument(
        "--to",
        dest="until",
        metavar="TIME",
        type=_until,
        help="last day (UTC) or time, which is included [now]",
    )


def period_of(args: argparse.Namespace) -> Period:
    """Return the period that the options name, until now: the record of this use comes later.

    Raises OperatorError if it ends before it begins: "0 records found" would be a wrong answer.
    """
    period = until_now(args.since, args.until)
    if period.since > period.until:
        end = "--to" if period.until == args.until else "now"
        raise OperatorError(f"--from must not be after {end}")
    return period


def directories_of(args: argparse.Namespace) -> list[Path]:
    """Return the directories that the options name. Raises OperatorError if one has no trail."""
    directories: list[Path] = args.directory or [Config.from_env().audit_dir]
    for directory in directories:
        try:
            is_trail = directory.is_dir() and bool(
                list_segments(directory) or read_chain(directory) or find_owner(directory)
            )
        except OSError as error:
            raise OperatorError(f"{directory} cannot be read: {error.strerror}") from error
        if not is_trail:
            raise OperatorError(f"there is no audit trail in {directory}")
    return list(dict.fromkeys(directories))


def record_use(operation: str, criteria: Criteria) -> None:
    """Record a search, an export or a report in this host's trail, before anything is shown.

    Nothing is recorded where there is no trail and VERIFYD_AUDIT is off. Raises OperatorError.
    """
    config = Config.from_env()
    owner = _owner(config)
    if owner is None:
        return
    who = session()
    record = Record(
        time=time_of(clock.now_ns()),
        operation=operation,
        login=who.login,
        sudo_user=who.sudo_user,
        unverified=True,
        criteria=criteria,
    )
    trail.record_use(config.audit_dir, owner, record)


def digest(text: str) -> str:
    """Return an argument that is a digest. Raises ArgumentTypeError."""
    try:
        return parsed_digest(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _owner(config: Config) -> Owner | None:
    if find_owner(config.audit_dir) is not None:
        return require_host(config.audit_dir)
    if not config.audit:
        return None
    with opened_database(config) as engine:
        return claim_for_command(engine, config)


def _since(text: str) -> str:
    return _moment(text, is_end=False)


def _until(text: str) -> str:
    return _moment(text, is_end=True)


def _moment(text: str, *, is_end: bool) -> str:
    try:
        return last_moment(text) if is_end else first_moment(text)
    except ValueError:
        rule = f"must be a day such as 2026-11-01 or a time such as 2026-11-01T15:00Z, not {text!r}"
        fault = clock.day_fault(text[: len("YYYY-MM-DD")], rule)
        raise argparse.ArgumentTypeError(fault) from None
