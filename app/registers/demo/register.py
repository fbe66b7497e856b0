"""A whole demo register: who is in it, and the native files it is written to.

A seed and a day decide everything. The crowd's vehicles change with the year only, and their
papers when a term, a certificate or a month runs out: a plate seen today answers tomorrow, too.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import TypeVar

from app.registers.demo.cast import CAST, Car, Situation, cast_members
from app.registers.demo.data import (
    AGE_SHARES,
    CLASSICS,
    COLORS,
    FINED_SHARES,
    INSURANCE_SHARES,
    MODELS,
    MOT_SHARES,
    TAX_SHARES,
    YEARS_UNTIL_CLASSIC,
)
from app.registers.demo.papers import NativeRow, Papers, plausible
from app.registers.demo.plates import new_plate

PLATES = 1000
SEED = 2026
FIRST_DAY, LAST_DAY = date(2021, 1, 1), date(2050, 12, 31)
"""Between these the cast is old enough, and the plates have age identifiers."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class DemoRegister:
    """The rows of the three native files, members named and ordered as there (DESIGN 4)."""

    vehicles: list[NativeRow]
    policies: list[NativeRow]
    fines: list[NativeRow]


def demo_register(today: date, seed: int = SEED) -> DemoRegister:
    """Return the register as of `today`, the cast first; ValueError outside 2021 to 2050."""
    if not FIRST_DAY <= today <= LAST_DAY:
        raise ValueError(f"the demo register covers {FIRST_DAY} to {LAST_DAY}, not {today}")
    register = DemoRegister([], [], [])
    for car, situation in [*cast_members(today), *_crowd(today, seed)]:
        papers = Papers(_random(f"{seed}/{car.registration}"), today, car)
        if situation.is_listed:
            register.vehicles.append(papers.vehicle_row(situation))
        register.policies.extend(papers.policy_rows(situation.insurance))
        register.fines.extend(papers.fine_rows(situation.fines))
    return register


def write_files(directory: Path, today: date, seed: int = SEED) -> list[Path]:
    """Write vehicles.csv, policies.csv and fines.csv, native layout; return their paths.

    They are the whole truth of their day: to be loaded with `replace` (D28).
    """
    register = demo_register(today, seed)
    return [
        _write_csv(directory / "vehicles.csv", register.vehicles),
        _write_csv(directory / "policies.csv", register.policies),
        _write_csv(directory / "fines.csv", register.fines),
    ]


def _write_csv(path: Path, rows: list[NativeRow]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {member: _csv_text(value) for member, value in row.items()} for row in rows
        )
    return path


def _csv_text(value: str | int | bool | None) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


def _crowd(today: date, seed: int) -> Iterator[tuple[Car, Situation]]:
    """Yield the vehicles beside the cast, all registered before this year began."""
    rng = _random(seed)
    taken = set(CAST.values())
    count = PLATES + 1 - len(CAST)  # the cast's `unknown` is in no register
    ages = _deal(rng, AGE_SHARES, count)
    papers = zip(
        _deal(rng, INSURANCE_SHARES, count),
        _deal(rng, MOT_SHARES, count),
        _deal(rng, TAX_SHARES, count),
        _deal(rng, FINED_SHARES, count),
        strict=True,
    )
    for (youngest, oldest), words in zip(ages, papers, strict=True):
        age = timedelta(days=rng.randrange(youngest * 365 + 1, oldest * 365))
        car = _car(
            rng, date(today.year, 1, 1) - age, taken, is_classic=oldest > YEARS_UNTIL_CLASSIC
        )
        taken.add(car.registration)
        yield car, plausible(today, car, Situation(*words))


def _car(rng: Random, first_registered: date, taken: set[str], *, is_classic: bool) -> Car:
    models = CLASSICS + MODELS if is_classic else MODELS
    on_sale = [m for m in models if m.first_year <= first_registered.year <= m.last_year]
    model = rng.choice(on_sale)
    color = rng.choices(list(COLORS), weights=list(COLORS.values()))[0]
    registration = new_plate(rng, first_registered)
    while registration in taken:
        registration = new_plate(rng, first_registered)
    return Car(registration, model.make, model.model, color, first_registered)


def _deal(rng: Random, shares: Mapping[_T, int], count: int) -> list[_T]:
    """Return `count` cards in the given shares, shuffled: exact, where dice would stray."""
    total = sum(shares.values())
    cards = [card for card, share in shares.items() for _ in range(round(count * share / total))]
    cards += [next(iter(shares))] * (count - len(cards))
    rng.shuffle(cards)
    return cards[:count]


def _random(seed: int | str) -> Random:
    return Random(seed)  # noqa: S311 - a demo; nothing here is a secret
