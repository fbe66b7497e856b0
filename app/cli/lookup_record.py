"""Records what `verifyd lookup` answers, before anything is shown (D125)."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from app import clock
from app.accounts.enquiry import enquiry_text_fault
from app.actor import session
from app.audit.record import Record, time_of
from app.audit.state import claim_for_command
from app.audit.trail import Trail
from app.cli.usage import Parser
from app.config import Config
from app.storage.engine import Engine
from app.vehicles.look_ups import judged_plate
from app.vehicles.reader import Found
from app.vehicles.records import Read

Recorder = Callable[[Sequence[Found], Read], None]
"""Records plates and the registers that they were looked up in. Raises AuditError."""


def add_enquiry(command: Parser) -> None:
    """Add `--reason` and `--reference`."""
    command.add_argument(
        "--reason",
        type=_text,
        metavar="CODE",
        help="why you look the plates up, for the audit trail",
    )
    command.add_argument(
        "--reference",
        type=_text,
        metavar="TEXT",
        help="case number or the like, for the audit trail",
    )


@contextmanager
def recording(
    args: argparse.Namespace, config: Config, engine: Engine, day: str
) -> Iterator[Recorder]:
    """Yield what records answers in this host's audit trail; it does nothing if the trail is off.

    Everything is on disk at the end. Raises AuditError if that fails.
    """
    if not config.audit:
        yield lambda _found, _registers: None
        return
    owner = claim_for_command(engine, config)
    trail, who = Trail(config.audit_dir, lambda: owner), session()

    def record(found: Sequence[Found], registers: Read) -> None:
        trail.append(
            Record(
                time=time_of(clock.now_ns()),
                operation="lookup",
                as_of=args.as_of,
                reason=args.reason,
                reference=args.reference,
                login=who.login,
                sudo_user=who.sudo_user,
                unverified=True,
                plates=[judged_plate(each, day, config.mot_first_years) for each in found],
                registers=registers,
            )
        )

    try:
        yield record
        trail.sync()
    finally:
        trail.close()


def _text(text: str) -> str:
    fault = enquiry_text_fault(text)
    if fault:
        raise argparse.ArgumentTypeError(fault)
    return text
