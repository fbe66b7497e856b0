"""`verifyd audit`: seal, verify and prune the audit trail."""

import argparse
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec

from app.accounts.models import require_text
from app.actions import session
from app.arguments import Argument, flag
from app.audit import hosts
from app.audit.chain import parsed_digest
from app.audit.digests import KeptDigests, find_digests, latest, trail_of
from app.audit.prune import AMOUNT, CLOCK, HOURS_MAX
from app.audit.record import Upkeep
from app.audit.segments import BLOCK_BYTES
from app.audit.upkeep import acknowledge
from app.audit.verify import Verdict, verify
from app.cli import audit_search
from app.cli.audit_search import DIRECTORIES, directories_of, not_empty
from app.cli.output import (
    Table,
    item_lines,
    opened_input,
    print_item,
    print_lines,
    utc,
    waiting_for,
)
from app.cli.parser import PARENT, Group
from app.config import Config
from app.errors import OperatorError
from app.jobs.audit_tasks import AuditTasks
from app.jobs.job import run
from app.jobs.tasks import TaskJob
from app.jobs.trail import PruneTrail, SealTrail, record_action
from app.processes import end_with_parent
from app.settings.values import calendar_age
from app.storage.session import opened_database
from app.text import counted

_REASON_CHARACTERS_MAX = 200
commands = Group("audit", "seal, verify, search, export, report and prune the audit trail")
VERDICTS = Table[Verdict](
    "segments records pruned pruned_before unsealed unsealed_records digest kept faults notes"
)


HOSTS = Table[hosts.AuditHost](
    "name machine trail since off_at off_by off_reason",
    trail=lambda row: "on" if row.is_on else "off",
    since=lambda row: utc(row.since),
)


@commands.command(
    "seal",
    "seal everything that was recorded until now, and print the latest digest",
    flag("--scheduled", "seal only hours that are over, and do nothing if there is no trail"),
    PARENT,
    examples=["audit seal"],
    is_job=True,
)
def _seal(args: argparse.Namespace) -> None:
    if args.parent is not None:
        end_with_parent(args.parent)
    done = run(
        SealTrail(
            is_scheduled=args.scheduled,
            is_background=args.parent is not None,
            waiting=partial(waiting_for, args),
        )
    )
    if done is None:
        return
    directory = Config.from_env().audit_dir
    records = sum(line.records for line in done.seals)
    members = {
        "directory": str(directory),
        "segments": [line.segment for line in done.seals],
        "records": records,
        "digest": done.digest,
    }
    kept = latest(directory)
    advice = "there is no digest to keep before the first record"
    if kept is not None:
        advice = f"keep this line on another machine: {kept}"
    print_item(args, members, f"{counted(records, 'record')} sealed; {advice}")


@commands.command(
    "verify",
    "tell whether anything was changed, removed or added since it was sealed",
    Argument("--digest DIGEST", "a digest that seal printed earlier", type=parsed_digest),
    Argument(
        "--digests FILE",
        "a text with the digests that left the host, such as a mailbox; - is standard input",
        type=not_empty,
    ),
    DIRECTORIES,
    examples=[
        "audit verify",
        "audit verify --digests /mnt/log/verifyd-digests.txt",
        "audit verify --digest 3f5a1c0e9d2b4f6877a6b5c4d3e2f1009182736455463728190a0b0c0d0e0f1a",
        "audit verify --directory /mnt/host1/audit --directory /mnt/host2/audit",
    ],
)
def _verify(args: argparse.Namespace) -> None:
    directories = directories_of(args)
    if args.digest and len(directories) > 1:
        raise OperatorError("a digest belongs to one trail: give one --directory with --digest")
    keep = Config.from_env().audit_keep
    with waiting_for(args, "all segments to be read"):
        # What is sealed meanwhile is no fault: the text comes first.
        kept = _kept_digests(args.digests) if args.digests else None
        trails = [trail_of(path) for path in directories] if kept else []
        verdicts = {
            path: verify(path, args.digest, keep, kept=kept, known=trails) for path in directories
        }
    items = [{"directory": str(path)} | VERDICTS.item(found) for path, found in verdicts.items()]
    lines = [line for path, found in verdicts.items() for line in _lines(path, found)]
    faults = sum(len(verdict.faults) for verdict in verdicts.values())
    sentence = "nothing that was sealed was changed, removed or added"
    if args.digest:
        sentence += ", and contains the digest"
    elif not args.digests:
        sentence += "; without a digest that was kept elsewhere, this does not exclude root"
    if args.digests:
        sentence += f"; {counted(sum(each.kept for each in verdicts.values()), 'kept digest')} fit"
    print_lines(args, items, lines, "" if faults else sentence)
    if faults:
        raise OperatorError(f"the audit trail does not verify: {counted(faults, 'fault')}")


def _kept_digests(name: str) -> KeptDigests:
    """Return the digests in a text file, or in standard input. Raises OperatorError."""
    with opened_input(name) as (file, named):
        try:
            return find_digests(iter(lambda: file.read(BLOCK_BYTES), b""))
        except OSError as error:
            raise OperatorError(f"{named} cannot be read: {error.strerror}") from error


def _lines(directory: Path, verdict: Verdict) -> Iterator[str]:
    before = f", all before {verdict.pruned_before}" if verdict.pruned else ""
    yield f"directory         {directory}"
    yield f"sealed            {_counts(verdict.segments, verdict.records)}"
    yield f"not sealed yet    {_counts(verdict.unsealed, verdict.unsealed_records)}"
    yield f"removed by age    {counted(verdict.pruned, 'segment')}{before}"
    yield f"latest digest     {verdict.digest or '-'}"
    if verdict.kept:
        yield f"compared with     {counted(verdict.kept, 'kept digest')}"
    for fault in verdict.faults:
        yield f"fault             {fault.sentence} [{fault.kind}]"
    for note in verdict.notes:
        yield f"note              {note.sentence} [{note.kind}]"


def _counts(segments: int, records: int) -> str:
    return f"{counted(segments, 'segment')}, {counted(records, 'record')}"


@commands.command(
    "acknowledge",
    "accept a prune that removed too much, or times that are wrong because the clock was ahead",
    Argument("FAULT", "line or segment that verify names, such as chain:57"),
    Argument("--reason TEXT", "why it is accepted, for the record"),
    examples=["audit acknowledge chain:57 --reason 'the clock was wrong, see ticket 4711'"],
)
def _acknowledge(args: argparse.Namespace) -> None:
    config = Config.from_env()
    reason = (
        None
        if args.reason is None
        else require_text("the reason", args.reason, _REASON_CHARACTERS_MAX)
    )
    found = acknowledge(config.audit_dir, config.audit_keep, args.fault, session(), reason)
    record_action(config, "audit.acknowledge", Upkeep(fault=args.fault), reason)
    members = {"directory": str(config.audit_dir), "fault": msgspec.to_builtins(found)}
    lines = item_lines({"directory": str(config.audit_dir), "fault": found.subject})
    print_item(args, members, f"acknowledged: {found.sentence}", lines)


@commands.command(
    "off",
    "let this host answer without its trail; the next start with VERIFYD_AUDIT=on ends that",
    Argument("--reason TEXT", "why, for the record", required=True),
    examples=["audit off --reason 'the disk is broken, ticket 4711'"],
)
def _off(args: argparse.Namespace) -> None:
    reason = require_text("the reason", args.reason, _REASON_CHARACTERS_MAX)
    with opened_database() as engine:
        row = hosts.switch_off(engine, reason)
    sentence = "switched off on this host; now set VERIFYD_AUDIT=off and restart the service"
    print_item(args, HOSTS.item(row), sentence)


@commands.command(
    "hosts",
    "list the hosts that must record what they answer, or forget one that is gone for good",
    Argument("--forget HOST", "machine of a host, which needs --reason", type=not_empty),
    Argument("--reason TEXT", "why it is forgotten, for the record"),
    examples=[
        "audit hosts",
        "audit hosts --forget 0d5a7c41f2b86e93a1c4d7e05b8f2c69 --reason 'web2 is scrapped'",
    ],
)
def _hosts(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        if args.forget:
            reason = require_text("the reason", args.reason or "", _REASON_CHARACTERS_MAX)
            hosts.forget(engine, args.forget, reason)
        rows = hosts.list_hosts(engine)
    HOSTS.print_list(args, rows, counted(len(rows), "host"))


# In the help, these are here.
commands.include(audit_search.commands)


commands.carry_out(lambda task_id: run(TaskJob(AuditTasks, task_id)))


@commands.command(
    "prune",
    "remove sealed records that are older than an age; the chain still verifies",
    Argument(
        "--keep AGE",
        "age from which records are removed: days, months or years, as in 730d, 24m or 2y "
        "[VERIFYD_AUDIT_KEEP]",
        type=calendar_age,
    ),
    flag("--accept-clock", "trust the clock for this run, although it jumped"),
    flag("--accept-amount", f"remove more than {HOURS_MAX} hours of records in this run"),
    flag("--scheduled", "do nothing if there is no trail"),
    examples=["audit prune", "audit prune --keep 12m --accept-amount"],
    is_job=True,
)
def _prune(args: argparse.Namespace) -> None:
    waiting = partial(waiting_for, args)
    accepted = [each for each in (CLOCK, AMOUNT) if getattr(args, f"accept_{each}")]
    done = run(
        PruneTrail(keep=args.keep, accepted=accepted, is_scheduled=args.scheduled, waiting=waiting)
    )
    if done is None:
        return
    directory = Config.from_env().audit_dir
    members = {
        "directory": str(directory),
        "before": done.before,
        "segments": done.segments,
        "records": done.records,
        "size_bytes": done.bytes,
        "digest": done.digest,
    }
    print_item(args, members, f"{counted(done.records, 'record')} removed")
