"""`verifyd clock`: show whether the clock is trusted, and accept it."""

import argparse

from app.arguments import flag
from app.cli.output import Table, print_item, utc
from app.cli.parser import Group
from app.clock_steps import ClockState, accept, look
from app.config import Config
from app.storage.session import opened_database, require_owner

commands = Group()
STATES = Table[ClockState](
    "now_at expected_at trusted_at fault",
    trusted_at=lambda state: state.anchor and utc(state.anchor.trusted),
    fault=lambda state: state.fault or None,
)


@commands.command(
    "clock",
    "show whether the clock of this host is trusted, or accept it",
    flag("--accept", "trust the clock as it is now, because it is right"),
    details="While the clock is not trusted, nothing is removed by its age.",
    examples=["clock", "clock --accept"],
)
def _clock(args: argparse.Namespace) -> None:
    config = Config.from_env()
    require_owner(config)
    accepted = ""
    if args.accept:
        with opened_database(config) as engine:
            accepted = accept(engine, config.data_dir).fault
    found = look(config.data_dir)
    sentence = f"accepted, although {accepted}" if accepted else "the clock is trusted"
    if found.fault:
        sentence = (
            f"nothing is removed by its age, because {found.fault}; set the clock, or if it is "
            'right, run "verifyd clock --accept"'
        )
    print_item(args, STATES.item(found), sentence)
