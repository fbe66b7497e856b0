"""`verifyd audit`: seal, verify and prune the audit trail."""

import argparse
from functools import partial
from pathlib import Path

from app.audit.chain import NO_DIGEST, parsed_digest
from app.audit.search import time_before
from app.audit.verify import Verdict, verify
from app.cli import audit_search
from app.cli.audit_search import DIRECTORIES, directories_of
from app.cli.output import Table, counted, print_document, print_item, print_sentence, waiting_for
from app.cli.parser import Argument, Group, flag, number_of, whole_number
from app.config import Config
from app.errors import OperatorError
from app.jobs.audit_tasks import AuditTasks
from app.jobs.job import run
from app.jobs.tasks import TaskJob
from app.jobs.trail import PruneTrail, SealTrail
from app.processes import end_with_parent

commands = Group("audit", "seal, verify, search, export, report and prune the audit trail")
VERDICTS = Table[Verdict](
    "segments records pruned pruned_before unsealed unsealed_records digest faults"
)


@commands.command(
    "seal",
    "seal everything that was recorded until now, and print the latest digest",
    flag("--scheduled", "seal only hours that are over, and do nothing if there is no trail"),
    # The service starts this command, and nothing may outlive it (D62).
    Argument(
        "--parent PID",
        "end when this process, which started the command, ends [never]",
        type=whole_number,
    ),
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
    advice = f"keep the digest {done.digest} on another machine"
    if done.digest == NO_DIGEST:
        advice = "there is no digest to keep before the first record"
    print_item(args, members, f"{counted(records, 'record')} sealed; {advice}")


@commands.command(
    "verify",
    "tell whether anything was changed, removed or added since it was sealed",
    Argument("--digest DIGEST", "a digest that seal printed earlier", type=parsed_digest),
    DIRECTORIES,
    examples=[
        "audit verify",
        "audit verify --digest 3f5a1c0e9d2b4f6877a6b5c4d3e2f1009182736455463728190a0b0c0d0e0f1a",
        "audit verify --directory /mnt/host1/audit --directory /mnt/host2/audit",
    ],
)
def _verify(args: argparse.Namespace) -> None:
    directories = directories_of(args)
    if args.digest and len(directories) > 1:
        raise OperatorError("a digest belongs to one trail: give one --directory with --digest")
    with waiting_for(args, "all segments to be read"):
        verdicts = {path: verify(path, args.digest) for path in directories}
    if args.json:
        items = [
            {"directory": str(path)} | VERDICTS.item(verdict) for path, verdict in verdicts.items()
        ]
        print_document(args, items)
    else:
        for path, verdict in verdicts.items():
            _print_verdict(path, verdict)
    faults = sum(len(verdict.faults) for verdict in verdicts.values())
    if faults:
        raise OperatorError(f"the audit trail does not verify: {counted(faults, 'fault')}")
    known = ", and contains the digest" if args.digest else ""
    if not args.json:
        print_sentence(f"nothing that was sealed was changed, removed or added{known}")


def _print_verdict(directory: Path, verdict: Verdict) -> None:
    before = f", all before {verdict.pruned_before}" if verdict.pruned else ""
    print(f"directory         {directory}")
    print(f"sealed            {_counts(verdict.segments, verdict.records)}")
    print(f"not sealed yet    {_counts(verdict.unsealed, verdict.unsealed_records)}")
    print(f"removed by age    {counted(verdict.pruned, 'segment')}{before}")
    print(f"latest digest     {verdict.digest or '-'}")
    for fault in verdict.faults:
        print(f"fault             {fault.sentence} [{fault.kind}]")


def _counts(segments: int, records: int) -> str:
    return f"{counted(segments, 'segment')}, {counted(records, 'record')}"


# In the help, these are here.
commands.include(audit_search.commands)


@commands.command(
    "carry-out",
    "do what somebody asked for in the console, which runs this by itself",
    Argument("ID", "number of the task", type=number_of("a task")),
    examples=["audit carry-out 7"],
    prints_data=False,
    is_job=True,
)
def _carry_out(args: argparse.Namespace) -> None:
    run(TaskJob(AuditTasks, args.id))


@commands.command(
    "prune",
    "remove sealed records that are older than an age; the chain still verifies",
    Argument(
        "--keep AGE",
        "age from which records are removed: days, months or years, as in 730d, 24m or 2y",
        required=True,
        type=time_before,
    ),
    flag("--scheduled", "do nothing if there is no trail"),
    examples=["audit prune --keep 24m", "audit prune --keep 730d"],
    is_job=True,
)
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
