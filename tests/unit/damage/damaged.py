"""Files that a source delivers by mistake. Loaded, they would make answers wrong."""

from collections.abc import Callable
from datetime import date

from app.storage.tables import Kind
from tests.unit.damage.cases import Case, each, merges, one, shifted, swapped, with_values
from tests.unit.damage.cases import without as lacks
from tests.unit.damage.cases import years as by_years
from tests.unit.damage.national import Rows, five_years, later

_V, _P, _F = Kind.VEHICLES, Kind.POLICIES, Kind.FINES


def _exchanged(one: str, other: str) -> Callable[[Rows, date], list[Rows]]:
    return each(**{one: lambda row: row[other], other: lambda row: row[one]})


def _days(name: str, by: int) -> Callable[[dict[str, str]], str]:
    return lambda row: row[name] and later(date.fromisoformat(row[name]), by)


def _nine_at_a_time(**values: str) -> Callable[[Rows, date], list[Rows]]:
    """Return five merges of nine rows each, which have the member before."""

    def loads(rows: Rows, _: date) -> list[Rows]:
        known = [row for row in rows if all(row[name] for name in values)]
        return [with_values(known[n * 9 : n * 9 + 9], **values) for n in range(5)]

    return loads


def _stacked(rows: Rows) -> Rows:
    """Return rows of which every second one has the plate of the one before."""
    return [row | {"registration": rows[n - n % 2]["registration"]} for n, row in enumerate(rows)]


def _numbered(name: str, form: str) -> Callable[[Rows, date], list[Rows]]:
    """Return rows in another order, whose member is the number of the line."""
    return one(
        lambda rows: [
            row | {name: form.format(n)}
            for n, row in enumerate(sorted(rows, key=lambda row: row["registration"]))
        ]
    )


DAMAGED = (
    # Dates of policies
    Case(
        "every policy date a century early",
        _P,
        each(validFrom=by_years("validFrom", -100), validTo=by_years("validTo", -100)),
    ),
    Case(
        "every policy date a century late",
        _P,
        each(validFrom=by_years("validFrom", 100), validTo=by_years("validTo", 100)),
    ),
    Case("policies end a century late", _P, each(validTo=by_years("validTo", 100))),
    Case(
        "policies end a year early",
        _P,
        each(validFrom=by_years("validFrom", -1), validTo=by_years("validTo", -1)),
    ),
    Case(
        "policies begin a year late",
        _P,
        each(validFrom=by_years("validFrom", 1), validTo=by_years("validTo", 1)),
    ),
    Case("policies end a month early", _P, each(validTo=_days("validTo", -31))),
    Case("policies end on their first day", _P, each(validTo=lambda row: row["validFrom"])),
    Case(
        "day and month of policies exchanged",
        _P,
        each(validFrom=swapped("validFrom"), validTo=swapped("validTo")),
    ),
    Case("first and last day of policies exchanged", _P, _exchanged("validFrom", "validTo")),
    # Cancellations
    Case("no policy is cancelled any more", _P, each(cancelledOn="")),
    Case("a merge without cancellations", _P, each(cancelledOn=""), mode="merge"),
    Case(
        "five merges that take nine cancellations back",
        _P,
        _nine_at_a_time(cancelledOn=""),
        mode="merge",
    ),
    Case(
        "every policy cancelled on its first day",
        _P,
        each(cancelledOn=lambda row: row["validFrom"]),
    ),
    Case(
        "a merge cancels an eighth of the policies",
        _P,
        merges(lambda rows: with_values(rows[:200], cancelledOn=lambda row: row["validFrom"])),
        mode="merge",
    ),
    Case("policies cancelled when they end", _P, each(cancelledOn=lambda row: row["validTo"])),
    # Members of policies
    Case("insurer and number exchanged", _P, _exchanged("insurer", "number")),
    Case(
        "a merge of insurer and number exchanged", _P, _exchanged("insurer", "number"), mode="merge"
    ),
    Case(
        "a merge of insurer and number exchanged, over the policies of five years",
        _P,
        lambda rows, today: _exchanged("insurer", "number")(rows[: len(rows) // 5], today),
        five_years,
        mode="merge",
    ),
    Case("insurer and type exchanged", _P, _exchanged("insurer", "type")),
    Case("one insurer in every policy", _P, each(insurer="ACME")),
    Case("no insurer", _P, each(insurer="")),
    Case("no type of policy", _P, each(type="")),
    Case("one number in every policy", _P, each(number="0")),
    Case("numbers are those of the lines", _P, _numbered("number", "P0{:06}")),
    # Policies that are gone
    Case(
        "30 % of the largest insurer's policies gone",
        _P,
        lacks(lambda n, row: row["insurer"] == "ACME" and n % 10 < 3),
    ),
    Case(
        "half of the smallest insurer's policies gone",
        _P,
        lacks(lambda n, row: row["insurer"] == "FJORD" and n % 40 < 20),
    ),
    Case("the smallest insurer gone", _P, lacks(lambda _, row: row["insurer"] == "FJORD")),
    Case("8 % of the policies gone", _P, lacks(lambda n, _: n % 25 < 2)),
    Case("the file of policies cut off", _P, lacks(lambda n, _: n >= 1_472)),
    Case(
        "plates of two letters of the alphabet gone",
        _P,
        lacks(lambda _, row: row["registration"][0] in "AB"),
    ),
    Case("two nights that lose 6 % each", _P, lambda rows, _: [rows[96:], rows[192:]]),
    # Plates
    Case("every policy shifted by one row", _P, one(lambda rows: shifted(rows, "registration"))),
    Case(
        "policies in the opposite order of their plates",
        _P,
        one(
            lambda rows: [
                row | {"registration": other["registration"]}
                for row, other in zip(rows, reversed(rows), strict=True)
            ]
        ),
    ),
    Case(
        "plates of policies without their last character",
        _P,
        each(registration=lambda row: row["registration"][:-1]),
    ),
    Case(
        "plates of policies with a letter O for the digit 0",
        _P,
        each(registration=lambda row: row["registration"].replace("0", "O")),
    ),
    Case("two policies for every second plate", _P, one(_stacked)),
    Case("every vehicle shifted by one row", _V, one(lambda rows: shifted(rows, "registration"))),
    Case(
        "a merge of vehicles shifted by one row",
        _V,
        one(lambda rows: shifted(rows, "registration")[:400]),
        mode="merge",
    ),
    Case(
        "vehicles of another country",
        _V,
        each(registration=lambda row: f"X{row['registration'][::-1]}"),
    ),
    # Members of vehicles
    Case("make and model exchanged", _V, _exchanged("make", "model")),
    Case("model and colour exchanged", _V, _exchanged("model", "color")),
    Case("one make", _V, each(make="FORD")),
    Case("no model", _V, each(model="")),
    Case("every vehicle a year younger", _V, each(year=lambda row: str(int(row["year"]) + 1))),
    Case(
        "first registered a century early",
        _V,
        each(firstRegistered=by_years("firstRegistered", -100)),
    ),
    Case("every flag of insurance true", _V, each(insured=lambda row: row["insured"] and "true")),
    Case(
        "every flag of insurance the opposite",
        _V,
        each(insured=lambda row: {"true": "false", "false": "true"}.get(row["insured"], "")),
    ),
    Case("8 % of the vehicles gone", _V, lacks(lambda n, _: n % 25 < 2)),
    # MOT and tax
    Case("everybody exempt from the MOT", _V, each(motExempt="true")),
    Case("nobody exempt from the MOT", _V, each(motExempt="")),
    Case("no date of an MOT", _V, each(motExpiry="")),
    Case("MOT dates a century early", _V, each(motExpiry=by_years("motExpiry", -100))),
    Case("MOT dates a century late", _V, each(motExpiry=by_years("motExpiry", 100))),
    Case("MOT dates a year early", _V, each(motExpiry=by_years("motExpiry", -1))),
    Case("one date of all MOTs", _V, each(motExpiry="2099-12-31")),
    Case("MOT dates shifted by one row", _V, one(lambda rows: shifted(rows, "motExpiry"))),
    Case(
        "MOT dates are those of the first registration",
        _V,
        each(motExpiry=lambda row: row["firstRegistered"]),
    ),
    Case("five merges that blank nine MOT dates", _V, _nine_at_a_time(motExpiry=""), mode="merge"),
    Case("everybody taxed", _V, each(taxStatus="taxed")),
    Case("everybody off the road", _V, each(taxStatus="sorn")),
    Case("no tax status", _V, each(taxStatus="")),
    Case("tax due a year early", _V, each(taxDue=by_years("taxDue", -1))),
    Case("tax never due", _V, each(taxDue="")),
    # Fines
    Case("every fine 0", _F, each(amount="0.00")),
    Case("every fine settled", _F, each(settledOn=lambda row: row["issuedOn"])),
    Case("no fine settled", _F, each(settledOn="")),
    Case("amounts a hundredth", _F, each(amount=lambda row: f"{float(row['amount']) / 100:.2f}")),
    Case("every fine shifted by one row", _F, one(lambda rows: shifted(rows, "registration"))),
    Case("fines of another order", _F, _numbered("reference", "F{:07}")),
    Case(
        "a quarter of the outstanding fines gone",
        _F,
        lacks(lambda n, row: not row["settledOn"] and n % 4 == 0),
    ),
)
"""SEC: later releases may refuse more of them, never fewer."""
