"""Watches in tests: a known vehicle, requests, and a sweep as a load starts it."""

import json
from datetime import timedelta

from app import clock
from app.vehicles.reader import readers_for_watches
from app.watches.sweep import Sweep, accounts_to_sweep
from tests.conftest import Client, World

PLATE = "AB12CDE"
PATH = "/v1/watches"
ITEM = f"{PATH}/{PLATE}"
EVENTS = "/v1/events"


def in_days(days: int, world: World) -> str:
    """Return the day that is some days from today."""
    return (clock.today(world.config.timezone) + timedelta(days)).isoformat()


def load_policy(world: World, plate: str = PLATE, **members: object) -> None:
    """Load a policy of a vehicle; the same one each time, with other members."""
    policy = {"registration": plate, "number": "P-1", "insurer": "A", "validFrom": "2020-01-01"}
    world.load([policy | {"validTo": "2999-12-31", "cancelledOn": None} | members])


def cancel(world: World, plate: str = PLATE) -> None:
    """Load the policy's cancellation, which took effect long ago."""
    load_policy(world, plate, cancelledOn="2021-01-01")


def put(client: Client, path: str = ITEM, headers: dict[str, str] | None = None, **members: object):
    """Set a watch."""
    sent = {"Content-Type": "application/json", **(headers or {})}
    return client.request("PUT", path, body=json.dumps(members), headers=sent)


def sweep(world: World, *, records: bool = False) -> None:
    """Sweep the watches of all accounts; `records` counts new states as recorded."""
    config = world.config
    readers = readers_for_watches(world.engine, config)
    for account in accounts_to_sweep(world.engine):
        reader = readers[account.is_sandbox]
        Sweep(world.engine, reader, account, "", lambda *_: None, records=records).run()


def refusal(response) -> tuple[int, str, str | None]:
    """Return the status, the code and the pointer of a refusal."""
    (fault,) = response.json.get("errors", [{"pointer": None}])
    return response.status_int, response.json["code"], fault["pointer"]
