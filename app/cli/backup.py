"""`verifyd backup` and `verifyd restore`."""

import argparse
from functools import partial
from pathlib import Path

from app.arguments import Argument, OneOf, flag
from app.backup.restore import restore
from app.backup.take import Registers
from app.cli.output import print_item, waiting_for
from app.cli.parser import SCHEDULED, Group
from app.config import Config
from app.jobs.backup import Backup
from app.jobs.job import run
from app.settings import values as setting_values
from app.storage.session import require_owner
from app.text import counted

commands = Group()


@commands.command(
    "backup",
    "take a backup, while the service runs or not",
    Argument(
        "DEST",
        "directory in which each backup gets a directory of its own",
        dest="directory",
        type=Path,
    ),
    OneOf(
        flag("--registers", "include all registers [no register]"),
        flag("--merged-registers", "include the registers that were built by merges [no register]"),
    ),
    flag("--audit", "include the audit trail [no audit trail]"),
    Argument(
        "--keep N",
        "keep the newest N backups of this database, within VERIFYD_BACKUP_LIMIT [all]",
        type=setting_values.whole_number(1, 10_000),
    ),
    SCHEDULED,
    examples=[
        "backup /var/backups/verifyd",
        "backup /var/backups/verifyd --merged-registers --audit --keep 14",
    ],
    is_job=True,
)
def _backup(args: argparse.Namespace) -> None:
    registers: Registers = "merged" if args.merged_registers else "none"
    if args.registers:
        registers = "all"
    job = Backup(
        destination=args.directory,
        registers=registers,
        keep=args.keep,
        with_trail=args.audit,
        is_scheduled=args.scheduled,
        waiting=partial(waiting_for, args),
    )
    taken = run(job)
    files = taken.manifest.all_files.values()
    members = {
        "backup": str(taken.directory),
        "size_bytes": job.size_bytes,
        "rows": sum(sum(file.rows.values()) for file in files),
        "registers": taken.manifest.registers or [],
        "audit": taken.manifest.audit is not None,
        "removed": [str(path) for path in taken.removed],
    }
    older = f", and {counted(len(taken.removed), 'older backup')} removed" if taken.removed else ""
    print_item(args, members, f"backup {taken.directory} taken{older}")


@commands.command(
    "restore",
    "replace the database with a backup, while the service is stopped",
    Argument("SRC", "directory of one backup", dest="backup", type=Path),
    examples=["restore /var/backups/verifyd/verifyd-20260131T020000Z-000"],
)
def _restore(args: argparse.Namespace) -> None:
    config = Config.from_env()
    require_owner(config)
    with waiting_for(args, f"the check and copy of {args.backup}"):
        restored = restore(config, args.backup)
    members = {
        "restored": str(args.backup),
        "taken_at": restored.manifest.taken_at,
        "schema": restored.manifest.schema,
        "registers": restored.registers,
        "replaced": restored.replaced and str(restored.replaced),
        "audit": restored.has_audit,
    }
    told = f"; what it replaced is in {restored.replaced}" if restored.replaced else ""
    if restored.has_audit:
        told += f"; its audit trail is in {config.audit_dir}"
    elif restored.manifest.audit is not None:
        told += f"; the audit trail in {config.audit_dir} stays as it is"
    print_item(args, members, f"backup {args.backup} restored{told}")
