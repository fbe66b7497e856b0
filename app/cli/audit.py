"""`verifyd audit`: seal, verify and prune the audit trail (D116, D119)."""

import argparse
from functools import partial
from pathlib import Path
from typing import TypedDict

from app.audit.chain import NO_DIGEST, Fault
from app.audit.search import time_before
from app.audit.verify import Verdict, verify
from app.cli import audit_report, audit_search
from app.cli.audit_options import add_directories, digest, directories_of
from app.cli.output import counted, print_document, print_item, print_sentence, waiting_for
from app.cli.parser import Commands, add_command, add_group, number_of, whole_number
from app.config import Config
from app.errors import OperatorError
from app.jobs.audit_tasks import AuditTaskJob
from app.jobs.job import run
from app.jobs.trail import PruneTrail, SealTrail
from app.processes import end_with_parent

# `verifyd audit carry-out`: what somebody asks of the trail in the console (D138).


def add_carry_out(audit: Commands) -> None:
    """Add the command."""
    command = add_command(
        audit,
        "carry-out",
        _carry_out,
        "do what somebody asked for in the console, which runs this by itself",
        examples=["audit carry-out 7"],
        prints_data=False,
        is_job=True,
    )
    command.add_argument("id", type=number_of("a task"), metavar="ID", help="number of the task")


def _carry_out(args: argparse.Namespace) -> None:
    run(AuditTaskJob(args.id))


class VerdictItem(TypedDict):
    """The verification of a trail as the command prints it."""

    directory: str
    segments: int
    records: int
    pruned: int
    pruned_before: str
    unsealed: int
    unsealed_records: int
    digest: str
    faults: list[Fault]


def add_commands(commands: Commands) -> None:
    """Add the command group."""
    audit = add_group(
        commands, "audit", "seal, verify, search, export, report and prune the audit trail"
    )
    sealed = add_command(
        audit,
        "seal",
        _seal,
        "seal everything that was recorded until now, and print the latest digest",
        examples=["audit seal"],
        is_job=True,
    )
    verified = add_command(
        audit,
        "verify",
        _verify,
        "tell whether anything was changed, removed or added since it was sealed",
        examples=[
            "audit verify",
            "audit verify --digest "
            "3f5a1c0e9d2b4f6877a6b5c4d3e2f1009182736455463728190a0b0c0d0e0f1a",
            "audit verify --directory /mnt/host1/audit --directory /mnt/host2/audit",
        ],
    )
    verified.add_argument(
        "--digest", metavar="DIGEST", type=digest, help="a digest that seal printed earlier"
    )
    add_directories(verified)
    audit_search.add_commands(audit)
    audit_report.add_commands(audit)
    add_carry_out(audit)
    pruned = add_command(
        audit,
        "prune",
        _prune,
        "remove sealed records that are older than an age; the chain still verifies",
        examples=["audit prune --keep 24m", "audit prune --keep 730d"],
        is_job=True,
    )
    pruned.add_argument(
        "--keep",
        metavar="AGE",
        required=True,
        type=_time_before,
        help="age from which records are removed: days, months or years, as in 730d, 24m or 2y",
    )
    sealed.add_argument(
        "--scheduled",
        action="store_true",
        help="seal only hours that are over, and do nothing if there is no trail",
    )
    # The service starts this command, and nothing may outlive it (D62).
    sealed.add_argument(
        "--parent",
        metavar="PID",
        type=whole_number,
        help="end when this process, which started the command, ends [never]",
    )
    pruned.add_argument("--scheduled", action="store_true", help="do nothing if there is no trail")


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
    advice = f"keep the digest {done.digest} on another machine"
    if done.digest == NO_DIGEST:
        advice = "there is no digest to keep before the first record"
    print_item(args, members, f"{counted(records, 'record')} sealed; {advice}")


def _prune(args: argparse.Namespace) -> None:
    waiting = partial(waiting_for, args)
    done = run(PruneTrail(args.keep, is_scheduled=args.scheduled, waiting=waiting))
    if done is None:
        return
    directory = Config.from_env().audit_dir
    members = {
        "directory": str(directory),
        "before": args.keep,
        "segments": done.segments,
        "records": done.records,
        "size_bytes": done.bytes,
        "digest": done.digest,
    }
    print_item(args, members, f"{counted(done.records, 'record')} removed")


def _verify(args: argparse.Namespace) -> None:
    directories = directories_of(args)
    if args.digest and len(directories) > 1:
        raise OperatorError("a digest belongs to one trail: give one --directory with --digest")
    with waiting_for(args, "all segments to be read"):
        verdicts = {path: verify(path, args.digest) for path in directories}
    items = [_verdict_item(path, verdict) for path, verdict in verdicts.items()]
    if args.json:
        print_document(args, items)
    else:
        for item in items:
            _print_verdict(item)
    faults = sum(len(item["faults"]) for item in items)
    if faults:
        raise OperatorError(f"the audit trail does not verify: {counted(faults, 'fault')}")
    known = ", and contains the digest" if args.digest else ""
    if not args.json:
        print_sentence(f"nothing that was sealed was changed, removed or added{known}")


def _verdict_item(directory: Path, verdict: Verdict) -> VerdictItem:
    return {
        "directory": str(directory),
        "segments": verdict.segments,
        "records": verdict.records,
        "pruned": verdict.pruned,
        "pruned_before": verdict.pruned_before,
        "unsealed": verdict.unsealed,
        "unsealed_records": verdict.unsealed_records,
        "digest": verdict.digest,
        "faults": verdict.faults,
    }


def _print_verdict(item: VerdictItem) -> None:
    print(f"directory         {item['directory']}")
    print(f"sealed            {_counts(item['segments'], item['records'])}")
    print(f"not sealed yet    {_counts(item['unsealed'], item['unsealed_records'])}")
    before = f", all before {item['pruned_before']}" if item["pruned"] else ""
    print(f"removed by age    {counted(item['pruned'], 'segment')}{before}")
    print(f"latest digest     {item['digest'] or '-'}")
    for fault in item["faults"]:
        print(f"fault             {fault.sentence} [{fault.kind}]")


def _counts(segments: int, records: int) -> str:
    return f"{counted(segments, 'segment')}, {counted(records, 'record')}"


def _time_before(text: str) -> str:
    try:
        return time_before(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
