"""`verifyd imports rollback`, `drop` and `undrop`: undo changes of a register.

`verifyd imports carry-out` does so for the console (D135).
"""

import argparse
from functools import partial

from app.cli.output import add_yes, confirm, print_item, waiting_for
from app.cli.parser import Commands, add_command, number_of, register_name, whole_number
from app.jobs.job import run
from app.jobs.register_tasks import RegisterTaskJob
from app.registers.generations import Generations
from app.registers.history import History
from app.registers.undo import (
    drop_register,
    purge_register,
    require_register,
    roll_back,
    undrop_register,
)
from app.storage.engine import Engine
from app.storage.session import opened_database
from app.storage.tables import Kind

_REGISTER_HELP = "name of the register"


def add_commands(imports: Commands) -> None:
    """Add the commands to the group `imports`."""
    rolled_back = add_command(
        imports,
        "rollback",
        _roll_back,
        "restore what a register held before its last replace",
        examples=["imports rollback --register rdw", "imports rollback --register rdw --to 41"],
    )
    rolled_back.option_of_words = "--register"
    rolled_back.add_argument(
        "--register",
        type=register_name,
        metavar="NAME",
        help="name of the register [the only one that can be rolled back]",
    )
    rolled_back.add_argument(
        "--kind", choices=list(Kind), help="refuse if rows of another kind would change [all kinds]"
    )
    rolled_back.add_argument(
        "--to",
        type=whole_number,
        metavar="ID",
        help="restore what the register held after load ID [before the last replace]",
    )
    dropped = add_command(
        imports,
        "drop",
        _drop,
        "drop a register with everything in it",
        examples=["imports drop rdw", "imports drop rdw --purge --yes"],
    )
    dropped.add_argument("register", type=register_name, metavar="NAME", help=_REGISTER_HELP)
    add_yes(dropped)
    dropped.add_argument(
        "--purge", action="store_true", help="free its disk space at once; this cannot be undone"
    )
    undropped = add_command(
        imports,
        "undrop",
        _undrop,
        "bring a dropped register back",
        examples=["imports undrop rdw"],
    )
    undropped.add_argument("register", type=register_name, metavar="NAME", help=_REGISTER_HELP)
    carried_out = add_command(
        imports,
        "carry-out",
        _carry_out,
        "do what somebody asked for in the console, which runs this by itself",
        examples=["imports carry-out 7"],
        prints_data=False,
        is_job=True,
    )
    carried_out.add_argument(
        "id", type=number_of("a task"), metavar="ID", help="number of the task"
    )


def _roll_back(args: argparse.Namespace) -> None:
    kind = Kind(args.kind) if args.kind else None
    with opened_database(waiting=partial(waiting_for, args)) as engine:
        done = roll_back(engine, args.register, kind, args.to)
    print_item(args, done, f"register {done['register']} holds what load {done['load']} left")


def _drop(args: argparse.Namespace) -> None:
    name = args.register
    with opened_database(waiting=partial(waiting_for, args)) as engine:
        confirm(args, _question(engine, name, purge=args.purge))
        (purge_register if args.purge else drop_register)(engine, name)
    if args.purge:
        space, undo = "freed", None
        sentence = f"register {name} removed for good"
    else:
        space = f'not freed yet; free it with "verifyd imports drop {name} --purge"'
        undo = f"verifyd imports undrop {name}"
        sentence = f'register {name} dropped; bring it back with "{undo}"'
    print_item(args, {"dropped": name, "disk_space": space, "undo": undo}, sentence)


def _question(engine: Engine, name: str, *, purge: bool) -> str:
    """Return the question before a drop. Raises OperatorError if there is nothing to drop."""
    generations = Generations(engine, name)
    dropped = generations.find_dropped() if purge else None
    is_there = dropped is not None or generations.find_current() is not None
    if purge and not is_there and not History(engine, name).ended_well():
        return f"There is no register {name}. End the warning about its failed loads?"
    rows = (dropped or require_register(engine, generations)).described()
    if purge:
        return f"Remove the register {name} ({rows}) for good?"
    return f"Drop the register {name} ({rows})?"


def _undrop(args: argparse.Namespace) -> None:
    with opened_database(waiting=partial(waiting_for, args)) as engine:
        entry = undrop_register(engine, args.register)
    members = {"undropped": entry.name} | {kind: entry.rows(kind) for kind in Kind}
    print_item(args, members, f"register {entry.name} ({entry.described()}) is back")


def _carry_out(args: argparse.Namespace) -> None:
    run(RegisterTaskJob(args.id))
