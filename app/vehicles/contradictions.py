"""Finds the registers that say the opposite of an answer, for each of its checks (D26).

The rules decide between registers, and an answer does not show that another one disagrees. So
`lookup`, its CSV files and the console say it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from app.storage.engine import Engine
from app.storage.registers import with_current_registers
from app.vehicles.compliance import judge, judge_mot, judge_tax
from app.vehicles.facts import PlateFacts, Record
from app.vehicles.reader import FoundPlate, VehicleReader
from app.vehicles.records import Read


class Contradicted(NamedTuple):
    """For each check the registers that say the opposite, in the order of precedence."""

    insurance: tuple[str, ...] = ()
    mot: tuple[str, ...] = ()
    tax: tuple[str, ...] = ()
    fines: tuple[str, ...] = ()


def contradicted(record: Record, day: str, registers: Iterable[str]) -> Contradicted:
    """Return the registers that say the opposite of the answer on the day (ISO date).

    A register says what its rows say alone, without what the settings add. About the insurance it
    speaks by its yes or no, and by its policies if it has the one answered. About fines it
    speaks only if it has one that a register calls owed. What it did not know for the day, it does
    not say (D198).

    Args:
        record: of a look-up that asked for dates.
        registers: in the order of precedence.
    """
    held = record.rows
    owed = {fine.reference for _, fine in held.fines if not fine.settled}
    said = [(name, _sayings(held.of(name), record, owed, day)) for name in registers]
    return Contradicted(
        *(
            tuple(
                name
                for name, sayings in said
                if verdict.is_known and (not verdict.is_good) in sayings[check]
            )
            for check, verdict in enumerate(judge(record, day))
        )
    )


def opposite_in_words(registers: Sequence[str]) -> str:
    """Return the sentence about registers that contradict a check."""
    return f"{' and '.join(registers)} {'says' if len(registers) == 1 else 'say'} the opposite"


def _sayings(
    held: PlateFacts, record: Record, owed: set[str], day: str
) -> tuple[set[bool], set[bool], set[bool], set[bool]]:
    """Return for each check the verdicts that a register gives alone; none if it says nothing."""
    insured: set[bool] = set()
    fines: set[bool] = set()
    answered, basis = record.policy, record.basis
    if answered and any(each.identity == answered.identity for _, each in held.policies):
        insured.add(any(each.is_in_force(day) for _, each in held.policies))
    if any(fine.reference in owed for _, fine in held.fines):
        fines.add(all(fine.settled for _, fine in held.fines))
    if not held.vehicles:
        return insured, set(), set(), fines
    ((_, vehicle),) = held.vehicles
    if vehicle.insured is not None and (basis is None or basis.was_known(vehicle.updated, day)):
        insured.add(vehicle.insured)
    alone = msgspec.structs.replace(
        record,
        mot_expiry=vehicle.mot_expiry,
        mot_exempt=vehicle.mot_exempt,
        mot_first_years=0,
        tax_status=vehicle.tax_status,
        tax_due=vehicle.tax_due,
        held=PlateFacts([("", vehicle)], [], []),
    )
    papers = (judge_paper(alone, day) for judge_paper in (judge_mot, judge_tax))
    mot, tax = (
        {each.is_good} if each.is_known and each.reason != "unknown" else set() for each in papers
    )
    return insured, mot, tax, fines


def look_up_contradicted(
    engine: Engine, reader: VehicleReader, asked: Sequence[str], day: str
) -> tuple[list[FoundPlate], Read, Mapping[str, Contradicted]]:
    """Look plates up with dates, all from the same state of the registers.

    Also returns the registers that were read, and by plate what is contradicted of its answer.

    Args:
        asked: plates as they were given.
        day: ISO date to judge by.

    Raises peewee.PeeweeException if a register cannot be read.
    """

    def look_up(state: str) -> tuple[list[FoundPlate], Read, Mapping[str, Contradicted]]:
        read = reader.attach(engine, state)
        with engine.consistent_read():
            found = reader.look_up_held(engine, state, asked, day)
        against = {
            each.registration: contradicted(each.record, day, read)
            for each in found
            if each.registration and each.record
        }
        return found, read, against

    return with_current_registers(engine, look_up)
