"""Watched plates, loads that change them, and sweeps, for tests."""

from collections.abc import Iterable
from typing import Any

from app.jobs.sweeping import sweep_all
from app.registers.rules import RULES
from app.watches.repository import Terms
from tests.unit.watched import Watched

PLATES = [f"AB{number:02}CDE" for number in range(60)]


def load(world: Any, plates: Iterable[str], valid_to: str = "2999-01-01") -> None:
    """Load a policy of each plate, whatever the rules say."""
    path = world.directory / "policies.csv"
    rows = "".join(f"{plate},1,ACME,2020-01-01,{valid_to}\n" for plate in plates)
    path.write_text(f"registration,number,insurer,validFrom,validTo\n{rows}")
    world.load_files(path, accept=list(RULES))


def watch(world: Any, *plates: str, account: str = "alice", **terms: Any) -> int:
    """Watch plates as a client would; return the number of the account."""
    watched = Watched(world.config, world.engine, ("native",))
    watched.put(account, [Terms(plate, **terms) for plate in plates])
    return watched.ids[account]


def sweep(world: Any) -> None:
    """Sweep all accounts that are due."""
    sweep_all(world.engine, world.configured(audit=True))


def hold(world: Any) -> int:
    """Have a sweep hold back that a load has ended the policies of all plates of an account."""
    load(world, PLATES)
    number = watch(world, *PLATES)
    sweep(world)
    load(world, PLATES, "2021-01-01")
    sweep(world)
    return number
