"""`verifyd imports`: past loads; rollback, drop and undrop of registers."""

import argparse
from functools import partial

from app import clock
from app.arguments import Argument, flag
from app.cli import diff
from app.cli.loads import in_words, progress_bar, result_sentence, rows_of
from app.cli.output import Table, confirm, item_lines, print_item, waiting_for
from app.cli.parser import YES, Group, limit, number_of, register_name, whole_number
from app.config import Config
from app.errors import OperatorError
from app.jobs.decisions import Acceptance, Rejection
from app.jobs.job import run
from app.jobs.register_tasks import RegisterTasks
from app.jobs.tasks import TaskJob
from app.registers import change_words
from app.registers.attempts import PastLoad, find_rejects, past_load, states_of_loads
from app.registers.generations import Generations
from app.registers.history import INTERRUPTED, MERGE, REPLACE, History, find_load, list_loads
from app.registers.holds import HELD
from app.registers.request import allowed_in_words
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
from app.text import counted

commands = Group("imports", "list, accept and reject loads; roll back, drop and undrop registers")


def _outcome(load: PastLoad) -> str | None:
    """Return in short what a load changed, or why it did not."""
    # What an accepted load changes, is in the line of the one that loaded its files.
    if load.accepted_as:
        return f"loaded as load {load.accepted_as}"
    if load.reason or not load.change:
        return load.reason
    rejected = f", {load.rejected:,} rejected" if load.rejected else ""
    return f"{change_words.brief(load.change)}{rejected}"


LOADS = Table[PastLoad](
    "id register kind mode status rows loaded change rejected skipped held started_at seconds "
    "loaded_by checksum reason changed format is_terminated files sizes reasons notes broken "
    "accepted accepts accepted_as known finished_at",
    columns="id register kind mode status rows started outcome",
    shown={
        "started": lambda load: f"{clock.iso_utc(load.started_at)[:16]}Z",
        "outcome": _outcome,
    },
    width_max=120,
)
_REGISTER = Argument("NAME", "name of the register", dest="register", type=register_name)


@commands.command(
    "list",
    "list attempts to load, latest first",
    Argument("--register NAME", "list only attempts to load this register", type=register_name),
    flag("--failed", "list only attempts that failed"),
    limit("attempts"),
    examples=["imports list", "imports list --register rdw --failed --limit 10"],
    option_of_words="--register",
)
def _list(args: argparse.Namespace) -> None:
    with opened_database() as engine:
        states = states_of_loads(engine)
        accepted = {number for number, state in states.items() if state.accepted_as}
        options = {"failed_or": states.keys(), "but": accepted} if args.failed else {}
        found = list_loads(engine, args.register, limit=args.limit, **options)
    loads = [past_load(each, states) for each in found]
    more = "; --limit shows more" if len(loads) == args.limit else ""
    LOADS.print_list(args, loads, counted(len(loads), "attempt") + more)


@commands.command(
    "show",
    "show everything that is known about one attempt to load",
    Argument("ID", "number of the attempt in the list", type=number_of("a load")),
    examples=["imports show 42", "imports show 42 --json"],
)
def _show(args: argparse.Namespace) -> None:
    data_dir = Config.from_env().data_dir
    with opened_database() as engine:
        found = find_load(engine, args.id)
        if found is None:
            raise OperatorError(f'there is no load {args.id}; see "verifyd imports list"')
        load = past_load(found, states_of_loads(engine))
    rejects = find_rejects(data_dir, load)
    members = LOADS.item(load) | {"rejects": str(rejects) if rejects else None}
    if not args.json:
        # In a list of loads, "held" is a status.
        members["rows_afterwards"] = members.pop("held")
        # The sizes are beside the files.
        del members["sizes"]
        members["files"] = list(map(_sized, load.files, load.sizes))
        members["broken"] = [f"{rule}: {told}" for rule, told in load.broken.items()]
        members["accepted"] = allowed_in_words(load.accepted)
        members["known"] = [f"{member} {rows:,}" for member, rows in (load.known or {}).items()]
    print_item(args, members if args.json else in_words(members), _sentence(load))


commands.include(diff.commands)


def _sized(file: str, size_bytes: int | None) -> str:
    return file if size_bytes is None else f"{file} ({size_bytes:,} bytes)"


def _sentence(load: PastLoad) -> str:
    """Return how an attempt ended."""
    number, register = f"load {load.id}", f"register {load.register}"
    if load.status == HELD:
        return (
            f'{number} is held; load its files with "verifyd imports accept {load.id}", or reject '
            f'them with "verifyd imports reject {load.id}"'
        )
    if load.accepted_as:
        return f"{number} was held; load {load.accepted_as} has loaded its files"
    verbs = {"running": "is running", "failed": "failed", INTERRUPTED: "was interrupted"}
    if load.status in verbs:
        return f"{number} {verbs[load.status]}"
    if load.kind and load.mode in (MERGE, REPLACE):
        rows = rows_of(load.loaded, load.kind)
        return f"{number}: {rows} loaded into {register}, {load.rejected:,} rejected"
    return f"{number}: {load.mode} of {register} done"


@commands.command(
    "accept",
    "load the files of a held load, with the rules that it breaks accepted",
    Argument("ID", "number of the held load in the list", type=number_of("a load")),
    examples=["imports accept 42"],
    sweeps=True,
)
def _accept(args: argparse.Namespace) -> None:
    waiting = partial(waiting_for, args)
    result = run(Acceptance(load_id=args.id, waiting=waiting, shown=progress_bar))
    item = result._asdict()
    print_item(args, item, result_sentence(result), item_lines(in_words(item)))


@commands.command(
    "reject",
    "end the hold of a load whose files are wrong; the same files are refused from then on",
    Argument("ID", "number of the held load in the list", type=number_of("a load")),
    examples=["imports reject 42"],
)
def _reject(args: argparse.Namespace) -> None:
    held = run(Rejection(load_id=args.id, waiting=partial(waiting_for, args)))
    item = {"rejected": held.id, "register": held.register, "files": held.files}
    print_item(args, item, f"load {held.id} rejected; its files stay in {held.directory}")


@commands.command(
    "rollback",
    "restore what a register held before its last replace",
    Argument(
        "--register NAME",
        "name of the register [the only one that can be rolled back]",
        type=register_name,
    ),
    Argument(
        "--kind", "refuse if rows of another kind would change [all kinds]", choices=list(Kind)
    ),
    Argument(
        "--to ID",
        "restore what the register held after load ID [before the last replace]",
        type=whole_number,
    ),
    examples=["imports rollback --register rdw", "imports rollback --register rdw --to 41"],
    option_of_words="--register",
    sweeps=True,
)
def _roll_back(args: argparse.Namespace) -> None:
    kind = Kind(args.kind) if args.kind else None
    with opened_database(waiting=partial(waiting_for, args)) as engine:
        done = roll_back(engine, args.register, kind, args.to)
    print_item(args, done, f"register {done['register']} holds what load {done['load']} left")


@commands.command(
    "drop",
    "drop a register with everything in it",
    _REGISTER,
    YES,
    flag("--purge", "free its disk space at once; this cannot be undone"),
    examples=["imports drop rdw", "imports drop rdw --purge --yes"],
    sweeps=True,
)
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
    rows = (dropped or require_register(generations)).described()
    if purge:
        return f"Remove the register {name} ({rows}) for good?"
    return f"Drop the register {name} ({rows})?"


@commands.command(
    "undrop",
    "bring a dropped register back",
    _REGISTER,
    examples=["imports undrop rdw"],
    sweeps=True,
)
def _undrop(args: argparse.Namespace) -> None:
    with opened_database(waiting=partial(waiting_for, args)) as engine:
        entry = undrop_register(engine, args.register)
    members = {"undropped": entry.name} | {kind: entry.rows(kind) for kind in Kind}
    print_item(args, members, f"register {entry.name} ({entry.described()}) is back")


commands.carry_out(
    lambda task_id: run(TaskJob(RegisterTasks, task_id, is_alerted=True)), sweeps=True
)
