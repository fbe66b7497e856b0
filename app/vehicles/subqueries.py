"""The subqueries of a look-up: what policies and fines add to the row of a plate (D20, D172)."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Any

import peewee
from peewee import JOIN, Case, fn

from app.storage.engine import Engine, parameter
from app.vehicles.facts import FINES_MAX, POLICIES_MAX, PolicyFacts


def with_policy(
    engine: Engine, source: peewee.Source, tables: Sequence[Any], plate: peewee.CTE
) -> tuple[peewee.Source, Any]:
    """Choose the policy to answer with among those of all registers (D20).

    Returns the source, joined with what is needed, and the column of the policy.
    """
    if not tables:
        return source, peewee.SQL("NULL")
    day = parameter("day")
    of_each: Any = [_policies_of(plate, table, place) for place, table in enumerate(tables)]
    held: Any = reduce(peewee.SelectBase.union_all, of_each).alias("held")
    its, in_force = held.c, _is_in_force(held.c, day)
    columns = [getattr(its, name) for name in PolicyFacts._fields]
    packed: peewee.Node
    if engine.has_lateral:
        packed = fn.json_build_array(*columns).cast("text").alias("policy")
        ranked = peewee.Select((held,), (packed,)).order_by(
            in_force.desc(),
            _end(its).desc(),
            _covers_end(its).desc(),
            its.valid_from.desc(),
            its.number.desc(),
            its.place,
            its.insurer,
        )
        found: Any = ranked.limit(1).alias("chosen")
        return peewee.Join(source, found, JOIN.LEFT_LATERAL, peewee.SQL("TRUE")), found.c.policy
    # PERF: beside its only MAX, SQLite takes all columns from the row that has the maximum. A
    # look-up takes half as long as with ORDER BY, which sorts for each plate. All parts but the
    # last have the same length, so the texts sort like `PolicyFacts.rank`.
    ending = in_force.concat(_end(its)).concat(_covers_end(its))
    rank = ending.concat(its.valid_from).concat(its.number)
    # NOTE: among equals SQLite keeps the row that it read first. It reads the registers in order,
    # and the policies of a plate in the order of their key, which begins with the insurer.
    packed = Case(None, [(fn.MAX(rank).is_null(False), fn.json_array(*columns))])
    return source, peewee.Select((held,), (packed,))


def _is_in_force(its: Any, day: peewee.Value) -> Any:
    return (
        (its.valid_from <= day)
        & (its.valid_to >= day)
        & (its.cancelled_on.is_null() | (its.cancelled_on > day))
    )


def _end(its: Any) -> Any:
    """Return the day on which a policy ends, as `PolicyFacts.end` does."""
    return Case(None, [(its.cancelled_on < its.valid_to, its.cancelled_on)], its.valid_to)


def _covers_end(its: Any) -> Any:
    """Tell whether a policy is in force on the day on which it ends (`PolicyFacts.ending`)."""
    return its.cancelled_on.is_null() | (its.cancelled_on > its.valid_to)


def later_policies(
    engine: Engine, tables: Sequence[Any], plate: peewee.CTE, *, in_force_first: bool
) -> peewee.Node:
    """Return the policies that end on or after the day as a JSON array, null if less than two.

    They end as D20 says, and have the order and the limit of `Record.policies`.
    """
    if not tables:
        return peewee.SQL("NULL")
    day = parameter("day")
    of_each: Any = [_policies_of(plate, table, place) for place, table in enumerate(tables)]
    held: Any = reduce(peewee.SelectBase.union_all, of_each).alias("held")
    its = held.c
    columns = [getattr(its, name) for name in PolicyFacts._fields]
    later: Any = peewee.Select((held,), columns).where(_end(its) >= day)
    order = [_is_in_force(its, day).desc()] if in_force_first else []
    # PERF: SQLite reads in this order anyway, and sorting costs 2 us for each plate.
    if engine.has_lateral or in_force_first:
        later = later.order_by(*order, its.place, its.insurer, its.number, its.valid_from)
    later = later.limit(POLICIES_MAX + 1).alias("later")
    columns = [getattr(later.c, name) for name in PolicyFacts._fields]
    packed = (
        fn.json_agg(fn.json_build_array(*columns)).cast("text")
        if engine.has_lateral
        else fn.json_group_array(fn.json_array(*columns))
    )
    # PERF: most plates have one policy, which is known already.
    return peewee.Select((later,), (packed,)).having(fn.COUNT(peewee.SQL("*")) > 1)


def _policies_of(plate: peewee.CTE, table: Any, place: int) -> Any:
    """Return the policies of the plate in one register, with its place in the order."""
    columns = [getattr(table, name) for name in PolicyFacts._fields]
    selected = table.select(*columns, peewee.SQL(str(place)).alias("place"))
    return selected.where(table.registration == plate.c.registration)


def newest_change(table: Any, registration: peewee.Node) -> Any:
    """Return the time of the newest change of a fine in one register."""
    return table.select(fn.MAX(table.updated)).where(table.registration == registration)


def are_outstanding(tables: Sequence[Any], plate: peewee.CTE) -> peewee.Node:
    """Tell whether a fine is owed in any register."""
    return reduce(or_, [_has_outstanding(t, plate) for t in tables], peewee.SQL("FALSE"))


def _has_outstanding(table: Any, plate: peewee.CTE) -> peewee.Node:
    # PERF: not EXISTS: asked for many plates, Postgres would read the whole table for it.
    is_owed = table.select(~table.settled).where(
        (table.registration == plate.c.registration) & ~table.settled
    )
    return fn.COALESCE(is_owed.limit(1), peewee.SQL("FALSE"))


def count_outstanding(tables: Sequence[Any], plate: peewee.CTE) -> peewee.Node:
    """Return how many different fines are owed; the number is exact up to `FINES_MAX`."""
    if not tables:
        return peewee.SQL("0")
    of_each: Any = []
    for table in tables:
        owed: Any = table.select(table.reference).where(
            (table.registration == plate.c.registration) & ~table.settled
        )
        owed = owed.limit(FINES_MAX).alias("owed")
        of_each.append(peewee.Select((owed,), (owed.c.reference,)))
    every: Any = reduce(peewee.SelectBase.union_all, of_each).alias("every")
    return peewee.Select((every,), (fn.COUNT(every.c.reference.distinct()),))
