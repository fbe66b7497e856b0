"""`python -m tests.bench`: the cost of the hot path, on generated registers.

Every figure is the median of single calls, all measured alternately in one run, so that a busy
machine slows all of them alike: compare within a run, not between runs.
"""

import argparse
import io
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from itertools import cycle
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from falcon.testing import create_environ

from app.accounts.administration import create_account, create_key, set_plan
from app.accounts.authentication import Authenticator
from app.config import Config
from app.domains.repository import Domains
from app.main import create_app
from app.storage.engine import Engine, close_quietly, open_engine
from app.storage.registers import Register
from app.storage.stores import migrate, store_of
from app.storage.tables import Fine, FineRow, Policy, PolicyRow, Vehicle, VehicleRow
from app.storage.versions import migrate_register
from app.vehicles.records import Records
from tests.bench.interpreter import description
from tests.bench.limits import print_figures
from tests.bench.postgres import copied
from tests.bench.service import print_rates

DAY = "2026-06-15"
BULK = 1_000
DOMAINS = 20
ONE_REGISTER = "native/1/fpv"
UPDATED = 1_780_272_000
COMPARED = (
    "key check",
    "look-up, 1 register",
    "look-up, 3 registers",
    "bulk of 1,000, 3 registers",
    "GET insurance",
    "POST bulk-insurance of 1,000",
)
Call = Callable[[], object]


@cache
def plate(number: int) -> str:
    """Return the plate of a vehicle, such as `AA00AAA`; neighbours are far apart."""
    number = number * 7_919_993 % 175_760_000
    letters = [chr(65 + number // 26**power % 26) for power in range(5)]
    return f"{letters[0]}{letters[1]}{number % 100:02}{''.join(letters[2:])}"


def native_vehicles(count: int) -> Iterator[VehicleRow]:
    for n in range(count):
        yield VehicleRow(
            *(plate(n), "FORD", "FOCUS", n % 20 + 2004, "BLUE"),
            mot_expiry=f"2026-{n % 12 + 1:02}-28",
            first_registered=f"{n % 20 + 2004}-05-01",
            tax_status="taxed",
            tax_due="2027-01-01",
            updated=UPDATED,
        )


def other_vehicles(count: int) -> Iterator[VehicleRow]:
    for n in range(count):
        yield VehicleRow(plate(n), "FORD", year=n % 20 + 2004, insured=True, updated=UPDATED)


def policies(count: int) -> Iterator[PolicyRow]:
    for n in range(count):
        for year in range(2026 - n % 3, 2027):
            key = (plate(n), "Northgate Mutual", f"POL-{year}-{n}", f"{year}-01-01")
            yield PolicyRow(*key, f"{year}-12-31", "comprehensive", None, UPDATED)


def fines(count: int) -> Iterator[FineRow]:
    for n in range(0, count, 10):
        yield FineRow(plate(n), f"F-{n}", "2026-05-01", 6_500, "EUR", False, UPDATED)


def build(directory: Path, vehicles: int) -> tuple[Config, str]:
    """Make an installation with three registers; return its settings and a key."""
    config = Config(
        database_url=f"sqlite:///{directory / 'bench.db'}",
        state_dir=directory / "state",
        access_log=False,
    )
    engine = open_engine(config.database_url, create=True)
    migrate(engine)
    set_plan(
        engine,
        "bench",
        {"requests": 10**9, "window_seconds": 1, "bulk_max": 10_000, "domains_max": DOMAINS},
    )
    account = create_account(engine, "bench", "bench")
    for number in range(DOMAINS):
        Domains(engine).create_domain(account.id, f"bench-{number}.example.com", DOMAINS)
    own = {Vehicle: native_vehicles(vehicles), Policy: policies(vehicles), Fine: fines(vehicles)}
    fill(engine, "native", "fpv", own)
    fill(engine, "rdw", "v", {Vehicle: other_vehicles(vehicles)})
    fill(engine, "mid", "p", {Policy: policies(vehicles // 2)})
    key = create_key(engine, "bench")[1].text
    close_quietly(engine)
    return config, key


def fill(
    engine: Engine, name: str, kinds: str, tables: dict[type[Any], Iterator[tuple[Any, ...]]]
) -> None:
    """Make a register with rows written in key order, without a load."""
    with store_of(engine, name).opened(1) as (register, schema):
        migrate_register(register, schema)
        with register.atomic():
            for model, rows in tables.items():
                places = ",".join("?" * len(model._meta.fields))
                insert = f'INSERT INTO "{model._meta.table_name}" VALUES ({places})'
                register.cursor().executemany(insert, sorted(rows, key=itemgetter(0)))
    Register.insert(name=name, generation=1, kinds=kinds).execute(engine)


def calls(config: Config, key: str, vehicles: int) -> dict[str, Call]:
    """Return the measured calls, by name."""
    engine, engine_of_one = open_engine(config.database_url), open_engine(config.database_url)
    authenticator = Authenticator(engine)
    caller = authenticator.find_caller(key)
    assert caller is not None
    several = caller.registers
    chance = random.Random(0)
    known = cycle([plate(chance.randrange(vehicles)) for _ in range(10_007)])
    bulk = cycle([[next(known) for _ in range(BULK)] for _ in range(10)])
    alone, merged = Records(engine_of_one, config), Records(engine, config)
    request = requests(config, key)
    return {
        "key check": lambda: authenticator.find_caller(key),
        "key check, built per request": lambda: Authenticator(engine).find_caller(key),
        "look-up, 1 register": lambda: alone.find_records(ONE_REGISTER, [next(known)], DAY),
        "look-up, 3 registers": lambda: merged.find_records(several, [next(known)], DAY),
        "look-up, 3 registers, built per request": lambda: Records(engine, config).find_records(
            several, [next(known)], DAY
        ),
        "bulk of 1,000, 1 register": lambda: alone.find_records(ONE_REGISTER, next(bulk), DAY),
        "bulk of 1,000, 3 registers": lambda: merged.find_records(several, next(bulk), DAY),
        "GET insurance": lambda: request("GET", f"/v1/vehicle/{next(known)}/insurance"),
        "GET compliance": lambda: request("GET", f"/v1/compliance/{next(known)}"),
        "POST bulk-insurance of 1,000": lambda: request(
            "POST", "/v1/vehicle/bulk-insurance", {"registrations": next(bulk)}
        ),
        "GET domains": lambda: request("GET", "/api/domains"),
    }


def requests(config: Config, key: str) -> Callable[..., object]:
    """Return a function that sends a whole request to the WSGI application, in this process."""
    app: Any = create_app(config)
    headers = {"X-API-Key": key, "Content-Type": "application/json"}
    environ = create_environ(headers=headers)

    def send(method: str, path: str, document: object = None) -> object:
        body = b"" if document is None else msgspec.json.encode(document)
        asked = environ | {"REQUEST_METHOD": method, "PATH_INFO": path}
        asked |= {"CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
        return b"".join(app(asked, require_ok))

    return send


def require_ok(status: str, headers: Iterable[tuple[str, str]], *_: object) -> None:
    """Start an answer and fail unless it succeeds: measuring failures is useless."""
    if not status.startswith("200"):
        raise AssertionError(status)


def medians(measured: dict[str, Call], seconds: float) -> dict[str, float]:
    """Call everything alternately for this long; return the median microseconds of each."""
    times: dict[str, list[int]] = {name: [] for name in measured}
    for call in measured.values():
        call()
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        for name, call in measured.items():
            # Repeat cheap calls, so that each has enough samples for a steady median.
            for _ in range(1 if "1,000" in name else 10):
                started = time.perf_counter_ns()
                call()
                times[name].append(time.perf_counter_ns() - started)
    return {name: median(nanoseconds) / 1000 for name, nanoseconds in times.items()}


def print_beside_postgres(
    directory: Path, config: Config, key: str, args: argparse.Namespace
) -> None:
    """Measure both databases alternately; print a line per call, and the server's part."""
    copy = copied(directory, config)
    on_sqlite = calls(config, key, args.vehicles)
    on_postgres = calls(copy.config, key, args.vehicles)
    both = {f"{name} (SQLite)": on_sqlite[name] for name in COMPARED}
    both |= {f"{name} (Postgres)": on_postgres[name] for name in COMPARED}
    figures = medians(both, args.seconds)
    print(f"{'':32}{'SQLite':>10}{'Postgres':>12}{'in the server':>16}")
    for name in COMPARED:
        times = (figures[f"{name} (SQLite)"], figures[f"{name} (Postgres)"])
        share = copy.share_in_server(on_postgres[name])
        print(f"{name:32}{times[0]:7,.0f} us{times[1]:9,.0f} us{share:16.0%}")
    print()
    plates = [plate(number) for number in range(args.vehicles)]
    configs = {"SQLite": config, "Postgres": copy.config}
    print_rates(directory, configs, {"Postgres": copy.cluster.pid}, plates)
    copy.cluster.stop("immediate")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--vehicles", type=int, default=200_000, help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=10, help="of measuring; default 10")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="verifyd-bench-") as directory:
        started = time.monotonic()
        config, key = build(Path(directory), args.vehicles)
        built_in = time.monotonic() - started
        print(f"{args.vehicles:,} vehicles in three registers, built in {built_in:.1f} s")
        print(f"Python {description()}\n")
        figures = medians(calls(config, key, args.vehicles), args.seconds)
        print_beside_postgres(Path(directory), config, key, args)
    for name, microseconds in figures.items():
        print(f"{name:42}{microseconds:10,.0f} us")
    for name in ("key check", "look-up, 3 registers"):
        ratio = figures[f"{name}, built per request"] / figures[name]
        print(f"\n{name}: compiled once is {ratio:.1f} times as fast as built per request", end="")
    print("\n")
    print_figures()


if __name__ == "__main__":
    main()
