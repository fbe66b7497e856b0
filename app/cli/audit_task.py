"""`verifyd audit carry-out`: what somebody asks of the trail in the console (D138)."""

import argparse
import os

from app.cli.loads import NICENESS
from app.cli.parser import Commands, add_command, number_of
from app.cli.session import opened_database
from app.cli.stopping import ended_like_ctrl_c
from app.config import Config
from app.jobs.audit_tasks import AuditTasks
from app.logs import progress_log


def add_commands(audit: Commands) -> None:
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
    config = Config.from_env()
    os.nice(NICENESS)
    with progress_log(), ended_like_ctrl_c(), opened_database(config) as engine:
        tasks = AuditTasks(engine, config)
        tasks.results.remove_old()
        tasks.carry_out(args.id)
