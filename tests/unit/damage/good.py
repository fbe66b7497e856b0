"""Files that are right, although they are unusual. They must load without any option."""

from collections.abc import Callable
from datetime import date

from app.storage.tables import Kind
from tests.unit.damage import national
from tests.unit.damage.cases import Case, each, one, with_values, without
from tests.unit.damage.national import Rows, later, plate

_V, _P, _F = Kind.VEHICLES, Kind.POLICIES, Kind.FINES


def _fleet(size: int, kind: Kind = _V) -> Callable[[date], Rows]:
    rows = {_V: national.vehicles, _P: national.policies, _F: national.fines}[kind]
    return lambda today: rows(today, size)


def _nothing(_: date) -> Rows:
    return []


def _to(size: int) -> Callable[[Rows, date], list[Rows]]:
    """Return a case's `loads`: one file with so many of the rows."""
    return one(lambda rows: rows[:size])


def _renewed(rows: Rows, first: str, last: str, *, prefix: str = "R") -> Rows:
    """Return new policies for these rows."""
    renewed = with_values(rows, validFrom=first, validTo=last, cancelledOn="")
    return [row | {"number": f"{prefix}{row['number'][1:]}"} for row in renewed]


def _ended_yesterday(today: date) -> Rows:
    """Return policies that all ended on the same day."""
    days = {"validFrom": later(today, -365), "validTo": later(today, -1), "cancelledOn": ""}
    return with_values(national.policies(today), **days)


def _renewals(count: int) -> Callable[[Rows, date], list[Rows]]:
    """Return a case's `loads`: one file with renewals from today on, beside all policies."""
    return lambda rows, today: [rows + _renewed(rows[:count], later(today, 0), later(today, 364))]


def _insurer_renews(rows: Rows, today: date) -> list[Rows]:
    own = [row for row in rows if row["insurer"] == "ACME"]
    rest = [row for row in rows if row["insurer"] != "ACME"]
    return [rest + _renewed(own, later(today, 0), later(today, 364))]


def _usual_night(rows: Rows, today: date) -> list[Rows]:
    """1 % of the policies are new, 1 % are cancelled, and 0.5 % are gone."""
    cancelled = with_values(rows[:16], cancelledOn=later(today, 0))
    cars = [{"registration": plate(n)} for n in range(1_800, 1_816)]
    new = [row | car for row, car in zip(rows[16:32], cars, strict=True)]
    new = _renewed(new, later(today, 0), later(today, 364), prefix="N")
    return [cancelled + rows[24:] + new]


def _ended_leave(rows: Rows, today: date) -> list[Rows]:
    return [[row for row in rows if row["validTo"] >= later(today, 0)]]


def _other_insurer(rows: Rows, today: date) -> list[Rows]:
    other = with_values(rows, insurer="GULL", validFrom=later(today, 0), validTo=later(today, 364))
    return [[row | {"number": f"G{n}"} for n, row in enumerate(other)]]


def _small_insurer_leaves(rows: Rows, today: date) -> list[Rows]:
    own = [row for row in rows if row["insurer"] == "FJORD"]
    rest = [row for row in rows if row["insurer"] != "FJORD"]
    taken = with_values(own, insurer="BOLT", validFrom=later(today, 0), validTo=later(today, 364))
    return [rest + [row | {"number": f"B{row['number']}"} for row in taken]]


def _without_members(*names: str) -> Callable[[date], Rows]:
    """Return a normal day's vehicles, of which nobody knows these members."""
    return lambda today: with_values(national.vehicles(today), **dict.fromkeys(names, ""))


def _rows(first: int, last: int, **values: str) -> Callable[[Rows, date], list[Rows]]:
    """Return a case's `loads`: one file, with other values in some of the rows."""
    return one(lambda rows: rows[:first] + with_values(rows[first:last], **values) + rows[last:])


def _new_cars(count: int, **values: str) -> Callable[[Rows, date], list[Rows]]:
    """Return a case's `loads`: one file that has more vehicles."""
    return lambda rows, today: [
        rows + with_values(national.vehicles(today, len(rows) + count)[len(rows) :], **values)
    ]


def _tax_renewed(rows: Rows, today: date) -> list[Rows]:
    return [[row | {"taxDue": row["taxDue"] and later(today, 365)} for row in rows]]


def _settled(rows: Rows, today: date) -> list[Rows]:
    """5 % of the fines are new, and 3 % are settled."""
    open_ = [n for n, row in enumerate(rows) if not row["settledOn"]][:18]
    settled = [
        row | {"settledOn": later(today, 0)} if n in open_ else row for n, row in enumerate(rows)
    ]
    return [settled + national.fines(today, len(rows) + 30)[len(rows) :]]


def _day_before(name: str) -> Callable[[dict[str, str]], str]:
    return lambda row: row[name] and later(date.fromisoformat(row[name]), -1)


_DAY_SOONER = {name: _day_before(name) for name in ("motExpiry", "taxDue")}
GOOD = (
    # Policies
    Case("first policies", _P, lambda _, today: [national.policies(today)], _nothing),
    Case("the same policies again", _P, _to(1_600)),
    Case("renewals of all policies on one day, beside the old ones", _P, _renewals(1_600)),
    Case(
        "renewals of all policies in place of those that ended yesterday",
        _P,
        lambda rows, today: [_renewed(rows, later(today, 0), later(today, 364))],
        _ended_yesterday,
    ),
    Case(
        "renewals of all policies, with the same numbers",
        _P,
        lambda rows, today: [
            with_values(rows, validFrom=later(today, 0), validTo=later(today, 364))
        ],
        _ended_yesterday,
    ),
    Case("an insurer renews all its policies in place of the old ones", _P, _insurer_renews),
    Case("a usual night of policies", _P, _usual_night),
    Case("renewals of the first of the month", _P, _renewals(64)),
    Case("all policies that have ended leave the file", _P, _ended_leave),
    Case("a fleet changes its insurer", _P, _other_insurer, _fleet(12, _P)),
    Case("a fleet of 100 changes its insurer", _P, _other_insurer, _fleet(100, _P)),
    Case("a small insurer's customers go to another one", _P, _small_insurer_leaves),
    Case("the policies of a fleet of 5 become 4", _P, _to(4), _fleet(5, _P)),
    Case("the policies of a fleet of 12 become 10", _P, _to(10), _fleet(12, _P)),
    Case(
        "a new insurer with 300 policies",
        _P,
        lambda rows, today: [
            rows
            + with_values(_renewed(rows[:300], later(today, 0), later(today, 364)), insurer="GULL")
        ],
    ),
    Case(
        "a region joins",
        _P,
        lambda rows, today: [rows + national.policies(today)[800:]],
        _fleet(800, _P),
    ),
    Case(
        "three cancellations taken back",
        _P,
        one(lambda rows: with_values(rows[:75], cancelledOn="") + rows[75:]),
    ),
    Case(
        "cancellations known for the first time",
        _P,
        lambda _, today: [national.policies(today)],
        lambda today: with_values(national.policies(today), cancelledOn=""),
    ),
    Case(
        "types known for the first time",
        _P,
        lambda _, today: [national.policies(today)],
        lambda today: with_values(national.policies(today), type=""),
    ),
    Case(
        "an insurer's numbers become longer",
        _P,
        each(
            number=lambda row: f"00{row['number']}" if row["insurer"] == "CREST" else row["number"]
        ),
    ),
    Case(
        "a merge of forty renewals",
        _P,
        lambda rows, today: [_renewed(rows[:40], later(today, 0), later(today, 364))],
        mode="merge",
    ),
    Case(
        "a merge of renewals of all policies",
        _P,
        lambda rows, today: [_renewed(rows, later(today, 0), later(today, 364))],
        mode="merge",
    ),
    Case(
        "a merge of renewals of all policies, over the policies of five years",
        _P,
        lambda rows, today: [_renewed(rows[:500], later(today, 0), later(today, 364))],
        national.five_years,
        mode="merge",
    ),
    Case(
        "a merge of one insurer's renewals",
        _P,
        lambda rows, today: [
            _renewed(
                [row for row in rows if row["insurer"] == "ACME"],
                later(today, 0),
                later(today, 364),
            )
        ],
        mode="merge",
    ),
    Case(
        "a merge of the plates that one insurer takes over from all others",
        _P,
        lambda rows, today: [
            with_values(_renewed(rows[:700], later(today, 0), later(today, 364)), insurer="GULL")
        ],
        mode="merge",
    ),
    Case(
        "a merge of twenty cancellations",
        _P,
        lambda rows, today: [with_values(rows[:20], cancelledOn=later(today, 0))],
        mode="merge",
    ),
    # Vehicles
    Case("first vehicles", _V, lambda _, today: [national.vehicles(today)], _nothing),
    Case("the same vehicles again", _V, _to(2_000)),
    Case("130 new cars without an MOT join 1,000", _V, _new_cars(130, motExpiry=""), _fleet(1_000)),
    Case("vehicles double", _V, _new_cars(1_000), _fleet(1_000)),
    Case("1 % of the vehicles scrapped", _V, without(lambda n, _: n % 100 == 0)),
    Case(
        "3 % of the vehicles have a new MOT",
        _V,
        lambda rows, today: _rows(0, 60, motExpiry=later(today, 364))(rows, today),
    ),
    Case(
        "the tax of all vehicles renewed on one day",
        _V,
        _tax_renewed,
        lambda today: with_values(
            national.vehicles(today), taxDue=lambda row: row["taxDue"] and later(today, -1)
        ),
    ),
    Case("2 % of the colours corrected", _V, _rows(100, 140, color="ORANGE")),
    Case(
        "3 % of the vehicles off the road for the winter",
        _V,
        _rows(0, 60, taxStatus="sorn", taxDue=""),
    ),
    Case("1 % of the vehicles become exempt from the MOT", _V, _rows(0, 20, motExempt="true")),
    Case(
        "exemptions known for the first time",
        _V,
        lambda _, today: [national.vehicles(today)],
        _without_members("motExempt"),
    ),
    Case(
        "years and first registrations known for the first time",
        _V,
        lambda _, today: [national.vehicles(today)],
        _without_members("year", "firstRegistered"),
    ),
    Case("last days of agencies a day sooner", _V, each(**_DAY_SOONER)),
    Case("a merge of last days a day sooner", _V, each(**_DAY_SOONER), mode="merge"),
    Case("a fleet of 5 becomes 4", _V, _to(4), _fleet(5)),
    Case("a fleet of 12 becomes 10", _V, _to(10), _fleet(12)),
    Case("a fleet of 9 becomes 8", _V, _to(8), _fleet(9)),
    Case(
        "the only vehicle is another one",
        _V,
        lambda _, today: [national.vehicles(today, 2)[1:]],
        _fleet(1),
    ),
    Case(
        "a fleet of 20 buys three new cars without an MOT",
        _V,
        _new_cars(3, motExpiry="", motExempt=""),
        _fleet(20),
    ),
    Case(
        "a merge of 40 new cars",
        _V,
        lambda _, today: [national.vehicles(today, 2_040)[2_000:]],
        mode="merge",
    ),
    Case(
        "a merge of 60 changed vehicles",
        _V,
        lambda rows, today: [with_values(rows[:60], motExpiry=later(today, 364))],
        mode="merge",
    ),
    # Fines
    Case("first fines", _F, lambda _, today: [national.fines(today)], _nothing),
    Case("a usual night of fines", _F, _settled),
    Case(
        "fines that were settled a year ago leave the file",
        _F,
        lambda rows, today: [
            [row for row in rows if not row["settledOn"] or row["issuedOn"] > later(today, -365)]
        ],
    ),
    Case(
        "currencies known for the first time",
        _F,
        lambda _, today: [national.fines(today)],
        lambda today: with_values(national.fines(today), currency=""),
    ),
    Case(
        "the fines of another city",
        _F,
        lambda rows, today: [rows + national.fines(today, 900)[600:]],
    ),
)
"""SEC: later releases may load more of them without an option, never fewer."""
