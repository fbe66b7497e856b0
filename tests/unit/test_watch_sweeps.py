"""What a sweep reports after loads and after midnight, and what it holds back (D184, D185)."""

from datetime import date
from typing import Any

import msgspec
import pytest

from app import clock
from app.registers.rules import RULES
from app.registers.undo import drop_register, roll_back
from app.watches.bodies import watch_body
from app.watches.repository import Terms
from tests.conftest import World
from tests.unit.watched import Watched

PLATE = "AB12CDE"
MANY = tuple(f"AB{number:02}CDE" for number in range(40))
"""So many that their changes by a load are suspicious."""


def policy(
    last: str, plate: str = PLATE, *, number: str = "1", first: str = "2020-01-01"
) -> dict[str, str]:
    policy = {"registration": plate, "number": number, "insurer": "A", "validFrom": first}
    return {**policy, "validTo": last}


def load(world: World, rows: list[Any], mode: str = "replace") -> None:
    """Load rows, however much they change."""
    path = world.directory / "rows.ndjson"
    path.write_bytes(msgspec.json.Encoder().encode_lines(rows))
    world.load_files(path, mode=mode, accept=tuple(RULES), allow_shrink=True)


@pytest.fixture
def today(monkeypatch):
    """`today("2027-03-01")` sets the day."""

    def set_day(day: str) -> None:
        monkeypatch.setattr(clock, "today", lambda _: date.fromisoformat(day))

    set_day("2027-03-01")
    return set_day


@pytest.fixture
def watched(world, today) -> Watched:
    """Accounts without watches, on 1 March."""
    return Watched(world.config, world.engine)


@pytest.fixture
def many(world, watched) -> Watched:
    """An account that watches 40 vehicles that are insured until 31 December."""
    load(world, [policy("2027-12-31", plate) for plate in MANY])
    watched.watch(*MANY, leads=(28, 14))
    watched.sweep()
    return watched


class TestChanges:
    def test_a_load_that_ends_a_policy_is_reported(self, world, watched):
        """A changed verdict is one event, with the verdict and the reason before and after."""
        load(world, [policy("2027-12-31")])
        watched.watch(PLATE)
        load(world, [policy("2027-02-01")])
        watched.sweep()
        (event,) = watched.new_events()
        assert (event.type, event.registration) == ("insurance.changed", PLATE)
        states = [msgspec.json.decode(text) for text in (event.before, event.after)]
        assert states == [
            {"valid": True, "reason": "valid", "lastDay": "2027-12-31"},
            {"valid": False, "reason": "expired", "lastDay": None},
        ]
        watched.sweep()
        assert watched.news() == []

    def test_a_new_reason_alone_is_none(self, world, watched):
        """The vehicle is still not insured."""
        load(world, [policy("2027-02-01")])
        watched.watch(PLATE)
        load(world, [policy("2028-02-01", first="2028-01-01")])
        watched.sweep()
        assert watched.news() == []
        (watch,) = watched.watches.list_watches(watched.ids["alice"])
        assert watch.told.insurance.reason == "future"

    def test_a_vehicle_becomes_unknown_and_known(self, world, watched):
        """Then there is only this event, with all four checks."""
        load(world, [policy("2027-03-10")])
        watched.watch(PLATE, leads=(28,))
        drop_register(world.engine, "native")
        watched.sweep()
        (gone,) = watched.new_events()
        load(world, [policy("2027-03-10")])
        watched.sweep()
        (back,) = watched.new_events()
        assert (gone.type, back.type) == ("vehicle.unknown", "vehicle.known")
        assert (gone.before, gone.after) == (back.after, back.before)
        checks = msgspec.json.decode(back.after)
        assert {name: each["valid"] for name, each in checks.items()} == {
            "insurance": True,
            "mot": False,
            "tax": False,
            "fines": True,
        }

    def test_a_watch_ends_after_its_last_day(self, world, watched, today):
        """It is still swept on its last day."""
        load(world, [policy("2027-03-01")])
        watched.put("alice", [Terms(PLATE, (), "fleet", None, "2027-03-02")])
        today("2027-03-02")
        watched.sweep()
        assert watched.news() == [("insurance.changed", PLATE)]
        today("2027-03-03")
        watched.sweep()
        (event,) = watched.new_events()
        assert (event.type, event.reference, event.after) == ("watch.ended", "fleet", "null")
        assert watched.watches.list_watches(watched.ids["alice"]) == []

    def test_a_policy_behind_more_than_a_hundred_is_found(self, world, watched, today):
        """A look-up for yesterday does not read it, so today is looked up, too."""
        ended = [policy("2027-03-01", number=str(number)) for number in range(105)]
        load(world, [*ended, policy("2027-12-31", number="next", first="2027-03-02")])
        watched.watch(PLATE)
        today("2027-03-02")
        watched.sweep()
        assert watched.news() == []


class TestEndings:
    def test_only_the_smallest_lead_day_that_was_passed_is_reported(self, world, watched, today):
        """28 days before an end that is not reported, 14 days are."""
        load(world, [policy("2027-04-30")])
        watched.watch(PLATE, leads=(28, 14, 3))
        today("2027-04-20")
        watched.sweep()
        assert watched.news() == [("insurance.ending", PLATE)]
        today("2027-04-27")
        watched.sweep()
        assert watched.news() == []
        today("2027-04-28")
        watched.sweep()
        assert watched.news() == [("insurance.ending", PLATE)]

    def test_policies_that_follow_each_other_end_nothing(self, world, watched, today):
        """The last day is that of the last of them."""
        next_one = policy("2028-03-31", number="2", first="2027-03-11")
        load(world, [policy("2027-03-10"), next_one])
        watched.watch(PLATE, leads=(28,))
        for day in ("2027-03-05", "2027-03-11"):
            today(day)
            watched.sweep()
        assert watched.news() == []

    def test_a_last_day_that_moves_there_and_back_is_reported_once(self, world, watched, today):
        """A load that moves it, and its correction, are no reason to repeat a lead day."""
        load(world, [policy("2027-03-20")])
        watched.watch(PLATE, leads=(28, 14))
        watched.sweep()
        assert watched.news() == [("insurance.ending", PLATE)]
        load(world, [policy("2027-12-31")])
        watched.sweep()
        roll_back(world.engine, "native", None)
        watched.sweep()
        assert watched.news() == []
        today("2027-03-07")
        watched.sweep()
        assert watched.news() == [("insurance.ending", PLATE)]

    def test_a_new_last_day_starts_afresh(self, world, watched, today):
        """After a renewal, the same lead day is reported again."""
        load(world, [policy("2027-03-20")])
        watched.watch(PLATE, leads=(28,))
        watched.sweep()
        load(world, [policy("2028-03-20")])
        watched.sweep()
        watched.new_events()
        today("2028-02-21")
        watched.sweep()
        assert watched.news() == []
        today("2028-02-22")
        watched.sweep()
        assert watched.news() == [("insurance.ending", PLATE)]

    def test_an_insurance_that_is_extended_day_by_day_ends_each_time(self, world, watched):
        """Each last day is another one; only one that is a day sooner counts as the same."""
        for last in ("2027-03-20", "2027-03-21", "2027-03-22"):
            load(world, [policy(last)])
            watched.watch(PLATE, leads=(28,))
            watched.sweep()
            assert watched.news() == [("insurance.ending", PLATE)]
        load(world, [policy("2027-03-21")])
        watched.sweep()
        assert watched.news() == []

    def test_a_replaced_watch_keeps_what_was_told(self, world, watched):
        """Clients may send their whole list every night; a deleted watch starts afresh."""
        load(world, [policy("2027-03-20")])
        watched.watch(PLATE, leads=(28,))
        watched.sweep()
        watched.new_events()
        watched.watch(PLATE, leads=(28,))
        watched.sweep()
        assert watched.news() == []
        load(world, [policy("2027-02-20")])
        watched.watch(PLATE)
        watched.sweep()
        assert watched.news() == [("insurance.changed", PLATE)]
        load(world, [policy("2027-12-31")])
        watched.remove("alice", [PLATE])
        watched.watch(PLATE)
        watched.sweep()
        assert watched.news() == []


class TestHolds:
    def test_a_bad_load_is_held_back_until_it_is_rolled_back(self, world, many):
        """Then nothing has happened."""
        load(world, [policy("2027-02-01", plate) for plate in MANY])
        assert [each.held for each in many.sweep()] == [40]
        roll_back(world.engine, "native", None)
        assert [each.held for each in many.sweep()] == [0]
        assert many.news() == []

    def test_what_the_calendar_has_changed_meanwhile_is_reported_then(self, world, watched, today):
        """A check that is held back is judged on the day that was told, not on that of a sweep."""
        load(world, [policy("2027-03-02", plate) for plate in MANY])
        watched.watch(*MANY)
        load(world, [policy("2027-02-01", plate) for plate in MANY])
        for day in ("2027-03-01", "2027-03-04", "2027-03-05"):
            today(day)
            assert [each.held for each in watched.sweep()] == [40]
        roll_back(world.engine, "native", None)
        assert [each.held for each in watched.sweep()] == [0]
        assert watched.news() == [("insurance.changed", plate) for plate in MANY]

    def test_a_state_that_is_held_back_keeps_its_day(self, world, many, today):
        """An account does not read that what was told is still so."""
        load(world, [policy("2027-02-01", plate) for plate in MANY])
        today("2027-03-02")
        many.sweep()
        (watch,) = many.watches.list_watches(many.ids["alice"])
        assert watch_body(watch).as_of == "2027-03-01"
        roll_back(world.engine, "native", None)
        many.sweep()
        (watch,) = many.watches.list_watches(many.ids["alice"])
        assert watch_body(watch).as_of == "2027-03-02"

    def test_an_unknown_vehicle_that_is_held_back_keeps_its_day(self, world, watched, today):
        """The register knows it today. Nor is it judged again when its state is recorded."""
        watched.put("alice", [Terms(plate) for plate in MANY], records=False)
        load(world, [policy("2027-12-31", plate) for plate in MANY])
        today("2027-03-02")
        assert [each.held for each in watched.sweep()] == [40]
        (watch,) = watched.watches.list_watches(watched.ids["alice"])
        assert (watch_body(watch).as_of, watch.is_recorded) == ("2027-03-01", True)

    @pytest.mark.parametrize(("watches", "is_held"), [(20, True), (399, True), (400, False)])
    def test_twenty_changes_are_suspicious_above_a_twentieth(
        self, world, watched, watches, is_held
    ):
        """Both bounds hold: at least 20 watches, and more than 5 % of the account's."""
        plates = [f"AB{number:03}CDE" for number in range(watches)]
        load(world, [policy("2027-12-31", plate) for plate in plates])
        watched.watch(*plates)
        load(world, [policy("2027-02-01", plate) for plate in plates[:20]], "merge")
        assert [each.held for each in watched.sweep()] == [20 * is_held]

    def test_a_load_that_mends_most_of_it_releases_the_rest(self, world, many):
        """Fewer than 20 changes are not suspicious."""
        load(world, [policy("2027-02-01", plate) for plate in MANY])
        many.sweep()
        load(world, [policy("2027-12-31", plate) for plate in MANY[19:]], "merge")
        assert [each.held for each in many.sweep()] == [0]
        assert many.news() == [("insurance.changed", plate) for plate in MANY[:19]]

    def test_the_end_of_a_month_is_not_held_back(self, world, watched, today):
        """What the calendar changes is reported, however much it is."""
        load(world, [policy("2027-03-31", plate) for plate in MANY])
        watched.watch(*MANY)
        today("2027-04-01")
        watched.sweep()
        assert watched.news() == [("insurance.changed", plate) for plate in MANY]

    def test_the_calendar_is_reported_beside_what_is_held_back(self, world, watched, today):
        """The MOT expires as usual while a bad load of policies is held back."""
        load(world, [policy("2027-12-31", plate) for plate in MANY])
        world.load([{"registration": plate, "motExpiry": "2027-03-01"} for plate in MANY])
        watched.watch(*MANY)
        load(world, [policy("2027-02-01", plate) for plate in MANY])
        today("2027-03-02")
        watched.sweep()
        assert watched.news() == [("mot.changed", plate) for plate in MANY]

    def test_what_a_bad_load_brings_near_is_held_back_when_it_lapses(self, world, many, today):
        """A check that is held back reports nothing more, neither lead days nor its end."""
        load(world, [policy("2027-03-16", plate) for plate in MANY])
        for day in ("2027-03-01", "2027-03-03", "2027-03-17"):
            today(day)
            assert [each.held for each in many.sweep()] == [40]
        assert many.news() == []
        roll_back(world.engine, "native", None)
        assert [each.held for each in many.sweep()] == [0]
        assert many.news() == []

    def test_a_smaller_lead_day_than_that_of_the_load_is_held_back(self, world, many, today):
        """The load was the reason, although 14 days were reached only later."""
        load(world, [policy("2027-03-16", plate) for plate in MANY])
        today("2027-03-04")
        assert [each.held for each in many.sweep()] == [40]
        assert many.news() == []

    @pytest.mark.parametrize(
        ("before", "after"),
        [
            (policy("2027-12-31"), policy("2027-03-02")),
            ({"motExempt": True}, {"motExempt": False, "motExpiry": "2027-03-02"}),
        ],
        ids=["earlier", "no longer open"],
    )
    def test_a_last_day_that_a_load_moves_is_held_back_before_it_passes(
        self, world, watched, today, before, after
    ):
        """Nothing is reported yet; but the lapse that follows would be as false."""
        load(world, [{**before, "registration": plate} for plate in MANY])
        watched.watch(*MANY)
        load(world, [{**after, "registration": plate} for plate in MANY])
        for day in ("2027-03-01", "2027-03-02", "2027-03-03"):
            today(day)
            assert [each.held for each in watched.sweep()] == [40]
        roll_back(world.engine, "native", None)
        assert [each.held for each in watched.sweep()] == [0]
        assert watched.news() == []

    def test_a_last_day_that_a_load_moves_for_few_is_told(self, world, watched, today):
        """The state has it at once, and the lapse is reported when it comes."""
        load(world, [policy("2027-12-31")])
        watched.watch(PLATE)
        load(world, [policy("2027-03-02")])
        watched.sweep()
        (watch,) = watched.watches.list_watches(watched.ids["alice"])
        assert watch.told.insurance.last_day == "2027-03-02"
        assert watched.news() == []
        today("2027-03-03")
        watched.sweep()
        assert watched.news() == [("insurance.changed", PLATE)]

    def test_lead_days_of_new_watches_are_not_held_back(self, world, watched):
        """No load has changed these vehicles."""
        load(world, [policy("2027-03-10", plate) for plate in MANY])
        watched.watch(*MANY, leads=(28,))
        watched.sweep()
        assert watched.news() == [("insurance.ending", plate) for plate in MANY]


def papers(mot: str, tax: str, plate: str) -> dict[str, str]:
    return {"registration": plate, "motExpiry": mot, "taxStatus": "taxed", "taxDue": tax}


class TestADaySooner:
    """Agencies write the first day without, which 1.0.0 stored as the last day with."""

    @pytest.fixture
    def load_papers(self, world):
        """`load_papers(MOT, TAX)` loads the same last days for all vehicles, by default."""

        def run(mot: str, tax: str, plates: tuple[str, ...] = MANY, mode: str = "replace") -> None:
            load(world, [papers(mot, tax, plate) for plate in plates], mode)

        return run

    @pytest.mark.parametrize("mode", ["merge", "replace"])
    def test_nothing_is_held_and_nothing_is_reported_twice(
        self, world, watched, today, load_papers, mode
    ):
        """What was reported about the former last day counts; smaller lead days still come."""
        load_papers("2027-03-20", "2027-04-01")
        watched.watch(*MANY, leads=(40, 14))
        watched.sweep()
        assert len(watched.news()) == 80
        load_papers("2027-03-19", "2027-03-31", mode=mode)
        assert [each.held for each in watched.sweep()] == [0]
        assert watched.news() == []
        (watch,) = watched.watches.list_watches(watched.ids["alice"])
        assert (watch.told.mot.last_day, watch.told.tax.last_day) == ("2027-03-19", "2027-03-31")
        today("2027-03-06")
        watched.sweep()
        assert watched.news() == [("mot.ending", plate) for plate in MANY]

    def test_a_lead_day_that_is_reached_thereby_is_reported(self, watched, load_papers):
        """It is due a day earlier than it was; no bad load has brought it."""
        load_papers("2027-03-15", "2027-12-31")
        watched.watch(*MANY, leads=(14,))
        watched.sweep()
        assert watched.news() == []
        load_papers("2027-03-14", "2027-12-31")
        assert [each.held for each in watched.sweep()] == [0]
        assert watched.news() == [("mot.ending", plate) for plate in MANY]

    def test_what_lapses_thereby_is_reported(self, watched, today, load_papers):
        """On the first of a month the tax that is due then is not paid any more."""
        load_papers("2027-12-31", "2027-04-01")
        today("2027-04-01")
        watched.watch(*MANY)
        load_papers("2027-12-31", "2027-03-31")
        assert [each.held for each in watched.sweep()] == [0]
        assert watched.news() == [("tax.changed", plate) for plate in MANY]

    def test_a_rollback_repeats_nothing(self, world, watched, load_papers):
        """It brings the former days back, and the next load those of the agency."""
        load_papers("2027-03-21", "2027-12-31")
        load_papers("2027-03-20", "2027-12-31")
        watched.watch(*MANY, leads=(28,))
        watched.sweep()
        assert len(watched.news()) == 40
        roll_back(world.engine, "native", None)
        assert [each.held for each in watched.sweep()] == [0]
        load_papers("2027-03-20", "2027-12-31")
        assert [each.held for each in watched.sweep()] == [0]
        assert watched.news() == []

    @pytest.mark.parametrize("mot", ["2027-03-18", ""])
    def test_more_than_a_day_is_held(self, watched, load_papers, mot):
        """So is a last day that is gone."""
        load_papers("2027-03-20", "2027-12-31")
        watched.watch(*MANY)
        load_papers(mot, "2027-12-31")
        assert [each.held for each in watched.sweep()] == [40]

    @pytest.mark.parametrize(("last", "held"), [("2027-03-19", 0), ("2027-03-18", 40)])
    def test_policies(self, world, watched, last, held):
        """A mapping can say of them, too, that their days are the first day without."""
        load(world, [policy("2027-03-20", plate) for plate in MANY])
        watched.watch(*MANY)
        load(world, [policy(last, plate) for plate in MANY])
        assert [each.held for each in watched.sweep()] == [held]


class TestTimes:
    def test_a_clock_that_is_set_back_reports_nothing_twice(self, world, watched, today):
        """No day is judged twice."""
        load(world, [policy("2027-03-05")])
        watched.watch(PLATE)
        for day in ("2027-03-06", "2027-03-03", "2027-03-06"):
            today(day)
            watched.sweep()
        assert watched.news() == [("insurance.changed", PLATE)]

    def test_a_clock_that_was_far_ahead_is_corrected(self, world, watched, today):
        """The account learns what is so today, and of the lapse when it comes."""
        load(world, [policy("2027-03-05")])
        today("2036-01-01")
        watched.watch(PLATE)
        today("2027-03-01")
        watched.sweep()
        assert watched.news() == [("insurance.changed", PLATE)]
        (watch,) = watched.watches.list_watches(watched.ids["alice"])
        assert (watch.day, watch.told.insurance.last_day) == ("2027-03-01", "2027-03-05")
        today("2027-03-06")
        watched.sweep()
        assert watched.news() == [("insurance.changed", PLATE)]
