"""The counts of changed answers are those of an independent count of all plates (D157)."""

import random
from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from app.config import Config
from app.errors import OperatorError
from app.registers.applying import judging
from app.registers.applying.answers import ANSWERS, AnswerCounts, LoadBasis, Moves
from app.registers.applying.apply_changes import Effect
from app.registers.change import change_of
from app.registers.diff import compare, require_comparable
from app.registers.history import list_loads
from app.registers.reading import reader
from app.registers.rules import RULES
from app.settings.values import EVERY_REGISTER
from app.storage.registers import list_entries, with_current_registers
from app.storage.stores import store_of
from app.storage.tables import TABLES, Kind, in_schema
from app.vehicles.compliance import judge
from app.vehicles.records import Records
from tests.conftest import STORAGE

pytestmark = STORAGE

DAY = "2026-03-01"
DAYS = [None, "2025-12-31", "2026-02-28", "2026-03-01", "2026-03-02", "2027-01-01"]
PLATES = [f"AB{number}CD" for number in range(24)]
REGISTERS = ("native", "rdw", "own")
BASIS = LoadBasis(DAY, ("rdw", "native"), {"native": 3, EVERY_REGISTER: 4})


def _vehicle(draw: random.Random, plate: str) -> dict[str, Any]:
    return {
        "registration": plate,
        "make": draw.choice(["FORD", "KIA"]),
        "insured": draw.choice([None, True, False]),
        "motExpiry": draw.choice(DAYS),
        "motExempt": draw.choice([None, True, False]),
        "firstRegistered": draw.choice([None, "2023-02-01", "2022-06-01"]),
        "taxStatus": draw.choice([None, "taxed", "exempt", "sorn"]),
        "taxDue": draw.choice(DAYS),
    }


def _policy(draw: random.Random, plate: str) -> dict[str, Any]:
    return {
        "registration": plate,
        "insurer": draw.choice(["ACME", "BOLT", ""]),
        "number": f"P{draw.randrange(12)}",
        "validFrom": draw.choice(["2025-01-01", "2026-03-01", "2026-03-02"]),
        "validTo": draw.choice(["2026-03-02", "2026-03-15", "2027-01-01"]),
        "cancelledOn": draw.choice([None, None, "2026-03-01", "2026-03-02"]),
    }


def _fine(draw: random.Random, plate: str) -> dict[str, Any]:
    return {
        "registration": plate,
        "reference": f"F{draw.randrange(12)}",
        "amount": draw.choice(["0.00", "20.00"]),
        "settledOn": draw.choice([None, "2026-01-01"]),
    }


ROWS = {"vehicles": _vehicle, "policies": _policy, "fines": _fine}


def _judged(world) -> dict[str, tuple[tuple[bool, ...], str | None]]:
    """Ask every plate as an enquiry does: its checks, and the insurer that covers it."""
    records = Records(
        world.engine, Config(register_order=BASIS.order, mot_first_years=BASIS.mot_first_years)
    )
    found, _ = with_current_registers(
        world.engine, lambda state: records.find_records(state, PLATES, DAY)
    )
    answers = {}
    for plate, record in found.items():
        judgement = judge(record, DAY)
        checks = (True, *(verdict.is_good for verdict in judgement), judgement.is_compliant)
        policy = record.policy
        covered = policy.insurer if policy and judgement.insurance.is_good else None
        answers[plate] = (checks, covered)
    return answers


def _counted(before: dict[str, Any], after: dict[str, Any]) -> Any:
    """Count plate by plate what `Change` says of answers and insurers."""
    unknown = ((False,) * len(ANSWERS), None)
    answers: Counter[object] = Counter()
    insurers: Counter[object] = Counter()
    for plate in PLATES:
        (was, old), (is_now, new) = before.get(plate, unknown), after.get(plate, unknown)
        for name, one, other in zip(ANSWERS, was, is_now, strict=True):
            answers.update({(name, 0)} if other and not one else ())
            answers.update({(name, 1)} if one and not other else ())
        insurers.update({(new, 0)} if new is not None and new != old else ())
        insurers.update({(old, 1)} if old is not None and new is None else ())
    return answers, insurers


def _stored(turned: dict[str, Any]) -> Counter[object]:
    return Counter({(name, at): n for name, each in turned.items() for at, n in enumerate(each)})


def _require_listed(world, before: dict[str, Any], after: dict[str, Any]) -> None:
    """Require that the list of changed answers is right, if the last load was a replace."""
    last = list_loads(world.engine)[0]
    unknown = ((False,) * len(ANSWERS), None)
    sides = [
        (plate, before.get(plate, unknown)[0], after.get(plate, unknown)[0]) for plate in PLATES
    ]
    with suppress(OperatorError):  # A merge, or the first load of a register.
        compared = require_comparable(world.engine, last.id)
        config = world.configured(register_order=BASIS.order, mot_first_years=BASIS.mot_first_years)
        pages = compare(world.engine, compared, config)
        listed = [each for turns in pages for each in turns.plates]
        assert listed == sorted(each for each in sides if each[1] != each[2])


_LONG = pytest.mark.system_long


def _own_rows(world, register: str, kind: str) -> dict[str, tuple[bool, set[str]]]:
    """Return for each plate whether the register has a row in force, and its numbers."""
    model: Any = TABLES[Kind(kind)]
    found: dict[str, tuple[bool, set[str]]] = {}
    for entry in list_entries(world.engine, name=register):
        with store_of(world.engine, register).opened(entry.generation) as (engine, schema):
            table = in_schema(model, schema) if schema else model
            for row in table.select().execute(engine):
                if kind == "policies":
                    is_live = str(row.valid_to) >= DAY and str(row.cancelled_on or "~") > DAY
                    number = row.number
                else:
                    is_live = kind == "vehicles" or not row.settled
                    number = getattr(row, "reference", "")
                was_live, numbers = found.get(row.registration, (False, set()))
                found[row.registration] = was_live or is_live, numbers | {number}
    return found


def _left_and_moved(before: dict[str, Any], after: dict[str, Any], kind: str) -> tuple[int, int]:
    nothing: Any = (False, set())
    left, gone, came = 0, set(), set()
    for plate in PLATES:
        (was, old), (is_now, new) = before.get(plate, nothing), after.get(plate, nothing)
        left += was and not is_now
        gone |= old - new
        came |= new - old
    return left, 0 if kind == "vehicles" else len(gone & came)


@pytest.mark.parametrize(
    ("seed", "loads"),
    [(0, 12), (1, 12), *(pytest.param(seed, 100, marks=_LONG) for seed in (2, 3))],
)
def test_counts_are_those_of_asking_every_plate(world, monkeypatch, seed, loads):
    """Random loads of three registers, merges and replaces.

    With odd seeds they are read in two processes, with even ones few rows are judged at once.
    """
    if seed % 2:
        monkeypatch.setattr(reader, "PIECE_BYTES", 256)
    else:
        monkeypatch.setattr(judging, "ROWS_KEPT", 4)
        monkeypatch.setattr(judging, "PLATES_ASKED", 3)
    draw = random.Random(seed)
    before = _judged(world)
    for number in range(loads):
        kind = draw.choice(list(ROWS))
        rows = [ROWS[kind](draw, plate) for plate in draw.choices(PLATES, k=draw.randrange(1, 30))]
        path = world.directory / "rows.ndjson"
        path.write_bytes(msgspec.json.Encoder().encode_lines(rows))
        options: Any = {
            "register": draw.choice(REGISTERS),
            "mode": draw.choice(["merge", "replace"]),
            "accept": list(RULES),
            "basis": BASIS,
        }
        own = _own_rows(world, options["register"], kind)
        world.load_files(path, **options)
        after = _judged(world)
        change: Any = change_of(list_loads(world.engine)[0])
        answers, insurers = _counted(before, after)
        assert _stored(change.answers) == answers
        assert _stored(change.insurers) == insurers
        changed = _own_rows(world, options["register"], kind)
        assert (change.left, change.moved) == _left_and_moved(own, changed, kind)
        if number % 4 == 0:
            _require_listed(world, before, after)
        before = after


def test_of_many_moves_a_share_is_followed():
    """Memory is bounded, also by what pages and processes add; the count is an estimate."""
    moves, page = Moves(), 5_000
    for start in range(0, 300_000, page):
        numbers = {f"P{number}" for number in range(start, start + page)}
        left, came = Moves(), Moves()
        left.add(numbers, set())
        came.add(set(), numbers)
        moves.add_others(*left.to_tuple())
        moves.add_others(*came.to_tuple())
    _, *followed = moves.to_tuple()
    assert max(map(len, followed)) <= 50_000
    assert abs(moves.count - 300_000) < 15_000


def test_a_statement_asks_for_a_page_of_plates(world, monkeypatch):
    """However many rows one batch removes, each statement asks for one page of plates."""
    asked: list[int] = []
    original = judging.rows_of

    def rows_of(engine, ref, kind, plates):
        asked.append(len(plates))
        return original(engine, ref, kind, plates)

    monkeypatch.setattr(judging, "rows_of", rows_of)
    monkeypatch.setattr(judging, "PLATES_ASKED", 10)
    rows = [(f"AB{number:03}", "ACME", "1", DAY, DAY, None, None, 1) for number in range(95)]
    counts = AnswerCounts()
    with judging.counted_answers(
        world.app_engine, "native", Kind.POLICIES, LoadBasis(DAY), counts
    ) as answers:
        answers.add(Effect(rows, added=rows))
    assert max(asked) == 10
    assert counts.plates == len(rows)
