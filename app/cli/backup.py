"""`verifyd backup` and `verifyd restore` (D47, D48)."""

import argparse
from functools import partial
from pathlib import Path

from app.backup.restore import restore
from app.backup.take import Registers
from app.cli.output import counted, print_item, waiting_for
from app.cli.parser import Commands, add_command, add_scheduled
from app.config import Config
from app.jobs.backup import Backup
from app.jobs.job import run
from app.setting_values import sqlite_path
from app.storage.session import require_owner


def add_commands(commands: Commands) -> None:
    """Add the two commands."""
    command = add_command(
        commands,
        "backup",
        _backup,
        "take a backup, while the service runs or not",
        examples=[
            "backup /var/backups/verifyd",
            "backup /var/backups/verifyd --merged-registers --audit --keep 14",
        ],
        is_job=True,
    )
    command.add_argument(
        "directory",
        metavar="DEST",
        type=Path,
        help="directory in which each backup gets a directory of its own",
    )
    which = command.add_mutually_exclusive_group()
    which.add_argument(
        "--registers", action="store_true", help="include all registers [no register]"
    )
    which.add_argument(
        "--merged-registers",
        action="store_true",
        help="include the registers that were built by merges [no register]",
    )
    command.add_argument(
        "--audit", action="store_true", help="include the audit trail [no audit trail]"
    )
    command.add_argument(
        "--keep",
        type=_count,
        metavar="N",
        help="keep the newest N backups of this database, within VERIFYD_BACKUP_LIMIT [all]",
    )
    add_scheduled(command)
    command = add_command(
        commands,
        "restore",
        _restore,
        "replace the database with a backup, while the service is stopped",
        examples=["restore /var/backups/verifyd/verifyd-20260131T020000Z-000"],
    )
    command.add_argument("backup", metavar="SRC", type=Path, help="directory of one backup")


def _backup(args: argparse.Namespace) -> None:
    registers: Registers = "merged" if args.merged_registers else "none"
    if args.registers:
        registers = "all"
    job = Backup(
        args.directory,
        registers,
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


def _restore(args: argparse.Namespace) -> None:
    config = Config.from_env()
    database = sqlite_path(config.database_url)
    if database:
        require_owner(database)
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


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError("must be a whole number from 1 to 10,000")
    return int(text)
