"""Watched plates, loads that change them, and sweeps, for tests."""

from collections.abc import Iterable
from typing import Any

from app.accounts.administration import require_account
from app.jobs.sweeping import sweep_all
from app.registers.rules import RULES
from app.storage.registers import read_state
from app.vehicles.reader import VehicleReader
from app.vehicles.records import Records
from app.watches.repository import Edit, Terms, Watches
from app.watches.sweep import WANTED
from app.watches.told import checks_of

PLATES = [f"AB{number:02}CDE" for number in range(60)]


def load(world: Any, plates: Iterable[str], valid_to: str = "2999-01-01") -> None:
    """Load a policy of each plate, whatever the rules say."""
    path = world.directory / "policies.csv"
    rows = "".join(f"{plate},1,ACME,2020-01-01,{valid_to}\n" for plate in plates)
    path.write_text(f"registration,number,insurer,validFrom,validTo\n{rows}")
    world.load_files(path, accept=list(RULES))


def watch(world: Any, *plates: str, account: str = "alice", **terms: Any) -> int:
    """Watch plates as a client would; return the number of the account."""
    reader = VehicleReader(Records(world.engine, ("native",), {"*": 0}), world.config)
    day = reader.day(None)

    def look(missing: Any) -> Any:
        found, _ = reader.look_up(read_state(world.engine), missing, day, WANTED)
        return {each.registration: each.record and checks_of(each.record, day) for each in found}

    number = int(require_account(world.engine, account).id)
    wanted = [Terms(plate, **terms) for plate in plates]
    Watches(world.engine).change_watches(number, Edit(wanted), 1_000, look, day, lambda *_: None)
    return number


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
