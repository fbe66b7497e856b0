"""The pages of registers: list, and one register with its history."""

from collections.abc import Sequence
from pathlib import Path

import falcon

from app.alerts.conditions import conditions_of
from app.alerts.loads import UNRECOGNISED, freshness
from app.alerts.message import Condition
from app.console.listing import Listing
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import Resource, missing, view
from app.registers.attempts import PastLoad, past_load, states_of_loads
from app.registers.dropped.kept import remembered
from app.registers.history import interrupted_loads, list_loads, list_running
from app.registers.snapshots import RegisterState, find_state
from app.settings.values import is_register_name
from app.storage.engine import Engine
from app.storage.registers import DroppedRegister, Entry, Register, list_entries
from app.storage.stores import store_of
from app.storage.versions import tells_unknown

PLACE = "registers"
"""The first segment of the paths of registers."""
_LINES_SHOWN = 20
_TASKS_SHOWN = 5
_SORTABLE = {
    "name": Register.name,
    "vehicles": Register.vehicles,
    "policies": Register.policies,
    "fines": Register.fines,
    "loaded": Register.loaded_at,
}
_DEFAULT_DROP = "/var/lib/verifyd/drop"


class RegisterList(Resource):
    """All registers, and dropped ones that can be brought back."""

    @view("registers/list.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values:
        """GET /console/registers. Parameters: `sort`, `page`."""
        engine, config = self.engine, self.config
        listing = Listing(req, _SORTABLE, Register.name)
        columns = (getattr(Register, name) for name in Entry._fields)
        entries = [Entry(*row) for row in listing.rows(Register.select(*columns).tuples(), engine)]
        ages = freshness(engine, config)
        conditions = conditions_of(engine, config, ages=ages).conditions
        ages_by_name = {age.register.name: age for age in ages}
        running = _running(engine)
        tasks = {task.register: task for task in self.services.tasks.running()}
        rows = [
            {
                "entry": entry,
                "age": ages_by_name.get(entry.name),
                "warnings": _warnings_of(entry.name, conditions),
                "running": running.get(entry.name),
                "task": tasks.get(entry.name),
            }
            for entry in entries
        ]
        return {
            "listing": listing,
            "rows": rows,
            "dropped": list_entries(engine, DroppedRegister),
            "others": _without_register(conditions, {entry.name for entry in entries}),
            "drop_directory": drop_directory(config.data_dir),
        }


class RegisterPage(Resource):
    """One register: its content, warnings, snapshots and history."""

    @view("registers/detail.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response, name: str) -> Values:
        """GET /console/registers/{name}."""
        engine, config = self.engine, self.config
        state = require_state(engine, name)
        ages = freshness(engine, config)
        conditions = conditions_of(engine, config, ages=ages).conditions
        lines = latest_loads(engine, name, _LINES_SHOWN)
        tasks = self.services.tasks.latest(name, _TASKS_SHOWN)
        return {
            "state": state,
            # By the rule of 1.0.0 it does not matter (D198).
            "is_complete": name in config.complete_registers if tells_unknown(engine) else None,
            "age": next((age for age in ages if age.register.name == name), None),
            "warnings": _warnings_of(name, conditions),
            "size_bytes": state.current
            and store_of(engine, name).size_bytes(state.current.generation),
            "running": _running(engine).get(name),
            "lines": lines,
            "has_more": len(lines) == _LINES_SHOWN,
            "tasks": tasks,
            "working": next((task for task in tasks if task.is_running), None),
        }


def require_state(engine: Engine, name: str) -> RegisterState:
    """Return the state of a register. Raises PageError if nobody has ever loaded one."""
    state = find_state(engine, name) if is_register_name(name) else None
    if state is None:
        text = "Nothing was ever loaded under this name, or it was too long ago."
        raise missing("register", text, PLACE)
    return state


def drop_directory(data_dir: Path) -> str:
    """Return the drop directory of the nightly job, or the one of an installation."""
    return str(remembered(data_dir) or _DEFAULT_DROP)


def _warnings_of(name: str, conditions: Sequence[Condition]) -> list[Condition]:
    kinds = ("load", "held", "stale", "unchanged")
    return [each for each in conditions if each.kind in kinds and each.key.split(":")[1] == name]


def _without_register(
    conditions: Sequence[Condition], names: set[str]
) -> list[tuple[str | None, Condition]]:
    """Return the warnings about loads of registers that do not exist.

    Each comes with the name of the register; None for an unknown register.
    """
    others = []
    for condition in conditions:
        kind, name = condition.key.split(":")[:2]
        if kind in ("load", "held") and name not in names:
            others.append((None if name == UNRECOGNISED else name, condition))
    return others


def _running(engine: Engine) -> dict[str, int]:
    """Return the number of the load that runs on each register."""
    interrupted = interrupted_loads(engine)
    return {load.register: load.id for load in list_running(engine) if load.id not in interrupted}


def latest_loads(engine: Engine, register: str | None, limit: int) -> list[PastLoad]:
    """Return the latest attempts to load a register, or any, the newest first."""
    states = states_of_loads(engine)
    return [past_load(each, states) for each in list_loads(engine, register, limit=limit)]
