"""A load that would break a rule is refused, unless an operator accepts the rule (D157)."""

import json
from datetime import date, timedelta
from typing import Any

import pytest

from app.errors import OperatorError
from app.registers import baseline
from app.registers.applying.answers import LoadBasis
from app.registers.change import change_of
from app.registers.change_words import brief
from app.registers.history import RegisterLoad, list_loads
from app.registers.reading import reader
from app.registers.rules import RULES, RulesBroken
from app.registers.undo import drop_register, roll_back, undrop_register
from app.settings.values import EVERY_REGISTER
from app.storage.files import register_file
from tests.conftest import ON_SQLITE
from tests.postgres import ROOT
from tests.rows import each_row
from tests.unit.test_load import files

DAY = date(2026, 3, 1)


def later(days: int) -> str:
    return (DAY + timedelta(days=days)).isoformat()


def cars(rows: int, *, first: int = 0, make: str = "FORD", mot: str = "2026-12-01") -> str:
    """Return a file of vehicles."""
    return "registration,make,motExpiry\n" + "".join(
        f"AB{n:05},{make},{mot}\n" for n in range(first, first + rows)
    )


def papers(rows: int, *, mot: str, tax: str, status: str = "taxed") -> str:
    """Return a file of vehicles with the last days of MOT and tax."""
    return "registration,make,motExpiry,taxStatus,taxDue\n" + "".join(
        f"AB{n:05},FORD,{mot},{status},{tax}\n" for n in range(rows)
    )


def policies(rows: int, *, cancelled: range = range(0), insurer: str = "ACME") -> str:
    """Return a file of policies in force; those cancelled are so since a month."""
    return "registration,insurer,number,validFrom,validTo,cancelledOn\n" + "".join(
        f"AB{n:05},{insurer},P{n},2026-01-01,2026-12-31,{later(-30) if n in cancelled else ''}\n"
        for n in range(rows)
    )


@pytest.fixture
def load(world):
    """`load(CONTENT)` replaces rows of the register native by default."""

    def run(content: str, **options: Any):
        options.setdefault("mode", "replace")
        options.setdefault("basis", LoadBasis(DAY.isoformat()))
        return world.load_files(*files(world, a=content), **options)

    return run


@pytest.fixture
def broken(load):
    """`broken(CONTENT)` returns the rules that a load breaks, and that its dry run breaks, too."""

    def run(content: str, **options: Any) -> list[str]:
        found = []
        for dry_run in (True, False):
            with pytest.raises(RulesBroken) as refusal:
                load(content, dry_run=dry_run, **options)
            found.append(list(refusal.value.broken))
        assert found[0] == found[1]
        return found[0]

    return run


def latest(world) -> Any:
    return list_loads(world.engine)[0]


class TestRefusal:
    def test_it_names_the_rules_and_what_accepts_them(self, world, load):
        """It has counts and no values; the history has what would have changed."""
        load(cars(100))
        with pytest.raises(OperatorError) as refusal:
            load(cars(100, make="#N/A", mot=""))
        assert str(refusal.value) == (
            "the load breaks rules: values: 100 of 100 rows would lose motExpiry; identity: 100 of "
            "100 vehicles would have another make, year or first registration, over 5 %; mot: 100 "
            "plates would lose their MOT, over 4 % of 100; if that is right, repeat the load with "
            "--accept values --accept identity --accept mot"
        )
        line = latest(world)
        assert (line.status, line.reason) == ("failed", str(refusal.value))
        change: Any = change_of(line)
        assert change.answers["mot"] == (0, 100)

    def test_every_broken_rule_must_be_accepted(self, world, load, broken):
        """What is accepted is noted with its counts; the rest is still refused."""
        load(cars(100))
        assert broken(cars(100, mot=""), accept=["mot"]) == ["values"]
        result = load(cars(100, mot=""), accept=["mot", "values", "rows"])
        assert result.notes[:2] == [
            "accepted values: 100 of 100 rows would lose motExpiry",
            "accepted mot: 100 plates would lose their MOT, over 4 % of 100",
        ]
        accepted = json.loads(latest(world).accepted)
        assert accepted == ["accept:mot", "accept:values", "accept:rows"]

    def test_former_options_accept_rules(self, load, broken):
        """`--allow-shrink` accepts rows, and `--allow-loss` the loss of one member."""
        load(cars(100))
        assert broken(cars(50, mot="")) == ["rows", "values", "mot"]
        assert broken(cars(50, mot=""), allow_shrink=True) == ["values", "mot"]
        assert broken(cars(100, mot=""), allow_loss=["motExpiry"]) == ["mot"]

    def test_a_first_load_breaks_none(self, load):
        """There is nothing to compare with; neither is there for another kind."""
        load(cars(1_000, mot="2001-01-01"))
        load(policies(1_000, cancelled=range(1_000)))

    def test_an_accepted_load_is_what_the_next_is_compared_with(self, load, broken):
        """The same file is right the next night; the damage is refused when it comes again."""
        load(cars(100))
        load(cars(100, mot=""), accept=["values", "mot"])
        assert load(cars(100, mot="")).changed == 0
        load(cars(100))
        assert broken(cars(100, mot="")) == ["values", "mot"]

    def test_a_rollback_and_an_undrop_between_change_nothing(self, world, load, broken):
        """The rows that are held count, wherever they came from."""
        load(cars(100))
        load(cars(100, mot=""), accept=["values", "mot"])
        roll_back(world.engine, "native", None)
        assert broken(cars(100, mot="")) == ["values", "mot"]
        drop_register(world.engine, "native")
        undrop_register(world.engine, "native")
        assert broken(cars(100, mot="")) == ["values", "mot"]

    def test_two_processes_count_as_one(self, world, load, broken, monkeypatch):
        """All counts are added up over both processes (D54)."""
        monkeypatch.setattr(reader, "PIECE_BYTES", 512)
        load(cars(200))
        assert broken(cars(200, make="KIA", mot="")) == ["values", "identity", "mot"]
        change: Any = change_of(latest(world))
        assert (change.plates, change.answers["mot"].lost) == (200, 200)
        assert change.members["make"].changed == 200


@each_row(
    ("before", "after", "is_refused"),
    [
        *((5, 4, False), (5, 3, False), (5, 2, True), (9, 8, False), (9, 0, True)),
        *((12, 10, False), (100, 90, False), (100, 89, True), (1, 0, True), (2, 1, False)),
    ],
)
def test_small_registers_have_a_minimum(world, before, after, is_refused):
    """Ten rows, or more than half of them, must be gone; never may all be."""
    register = f"r{before}"
    for rows, mode in ((before, "replace"), (after, "replace")):
        path = files(world, a=cars(rows, mot=""))[0]
        is_last = (rows, mode) == (after, "replace") and rows != before
        if is_last and is_refused:
            with pytest.raises(RulesBroken):
                world.load_files(path, mode=mode, register=register)
        else:
            world.load_files(path, mode=mode, register=register, allow_shrink=not is_last)


class TestValues:
    @each_row(("lost", "loss_max"), [(10, 10), (11, 11), (0, 0)])
    def test_a_share_of_those_that_had_it_may_lose_it(self, load, lost, loss_max):
        """The limit is a setting; rows that never had the member do not count."""
        load(cars(100), accept=["values", "mot"])
        content = cars(100).replace("2026-12-01", "", lost)
        assert load(content, loss_max=loss_max, accept=["mot"]).held == 100

    def test_rare_members_count_like_others(self, load, broken):
        """Twelve of 400 policies are cancelled; without their days they would insure again."""
        load(policies(400, cancelled=range(12)))
        assert broken(policies(400)) == ["values"]

    def test_a_slow_decline_adds_up(self, load, broken):
        """The losses of the last replaces count together, net of what came back."""
        load(cars(200))
        for lost in (6, 13):
            load(cars(200).replace("2026-12-01", "", lost))
        assert broken(cars(200).replace("2026-12-01", "", 20)) == ["values"]
        load(cars(200))
        load(cars(200).replace("2026-12-01", "", 7))

    def test_new_keys_do_not_hide_a_loss(self, load, broken):
        """If most plates are others, they must know a member as often as the former ones."""
        load(cars(300))
        assert broken(cars(300, first=300, mot=""), accept=["rows"]) == ["values"]

    def test_a_member_that_becomes_known_breaks_no_rule(self, load):
        """Cancellations end the cover of half of the plates, but nobody knew them before."""
        load(policies(200))
        assert load(policies(200, cancelled=range(100))).changed == 100

    def test_it_excuses_no_more_than_it_explains(self, load, broken):
        """One cancellation does not excuse a file that was cut off, nor do cancellations of all."""
        load(policies(200))
        assert broken(policies(100, cancelled=range(1))) == ["rows", "insurers", "insured"]
        assert broken(policies(200, cancelled=range(200))) == ["rows", "insurers", "insured"]

    def test_road_tax_that_is_not_due_any_more_is_no_loss(self, load, broken):
        """A vehicle that is off the road has no such day; one whose status stays does."""
        header = "registration,taxStatus,taxDue\n"
        load(header + "".join(f"AB{n},taxed,2027-01-01\n" for n in range(400)))
        off = "".join(f"AB{n},sorn,\n" for n in range(12))
        assert load(header + off, mode="merge").changed == 12
        blank = "".join(f"AB{n},taxed,\n" for n in range(20, 32))
        assert broken(header + blank, mode="merge") == ["values"]

    def test_flags_that_become_true_everywhere_are_refused(self, load, broken):
        """No value of a flag is one, too; in a merge of most rows as well."""
        header = "registration,motExempt\n"
        load(header + "".join(f"AB{n},{'true' if n < 30 else ''}\n" for n in range(600)))
        everybody = header + "".join(f"AB{n},true\n" for n in range(600))
        assert [broken(everybody, mode=mode) for mode in ("replace", "merge")] == [["variety"]] * 2

    def test_vehicles_that_leave_do_not_lose_their_mot(self, load):
        """The rule about rows judges them."""
        load(cars(200))
        assert load(cars(185)).changed == 15

    def test_a_currency_may_leave_with_its_only_fine(self, load):
        """One value of two is not half of the variety if its row is gone."""
        rows = [f"AB{n},F{n},20.00,GBP\n" for n in range(600)]
        header = "registration,reference,amount,currency\n"
        load(header + "".join([*rows[:599], "AB599,F599,20.00,EUR\n"]))
        new = [f"CD{n},G{n},20.00,GBP\n" for n in range(40)]
        assert load(header + "".join([*rows[40:599], *new])).changed == 81

    def test_many_new_fines_are_refused(self, world, load, broken):
        """Of the vehicles, over 4 % would fail because of them."""
        world.load_files(files(world, a=cars(1_000))[0], register="cars")
        header = "registration,reference,amount\n"
        load(header + "".join(f"AB{n:05},F{n},20.00\n" for n in range(20)))
        assert load(header + "".join(f"AB{n:05},F{n},20.00\n" for n in range(50))).changed == 30
        many = header + "".join(f"AB{n:05},F{n},20.00\n" for n in range(200))
        assert broken(many) == ["fines"]

    def test_a_load_of_an_earlier_release_is_not_compared(self, world, load):
        """Nobody knows how many of its rows were in force."""
        load(policies(200, cancelled=range(80)))
        RegisterLoad.update(change=None).execute(world.engine)
        assert load(policies(200, cancelled=range(80))).changed == 0

    def test_more_of_a_known_member_breaks_rules(self, load, broken):
        """Once cancellations are known, a sudden jump of them is refused."""
        load(policies(200, cancelled=range(3)))
        assert broken(policies(200, cancelled=range(100))) == ["rows", "insurers", "insured"]


class TestMerges:
    def test_a_few_touched_rows_may_change(self, load):
        """Somebody corrects two rows of many."""
        load(cars(1_000))
        assert load(cars(2, make="KIA", mot=""), mode="merge").changed == 2

    def test_losses_add_up(self, load, broken):
        """Nine rows a night are too many on the second one."""
        load(cars(1_000))
        load(cars(9, mot=""), mode="merge")
        assert broken(cars(9, first=9, mot=""), mode="merge") == ["values"]
        assert load(cars(9), mode="merge").changed == 9
        assert load(cars(9, first=9, mot=""), mode="merge").changed == 9

    def test_gains_of_other_rows_make_nothing_up(self, load, broken):
        """A column that moved down by one row loses as many values as it brings."""
        load(policies(1_000, cancelled=range(0, 1_000, 20)))
        shifted = policies(1_000, cancelled=range(1, 1_000, 20))
        assert broken(shifted, mode="merge") == ["values", "insured"]

    def test_merges_of_whole_files_add_up(self, load, broken):
        """The same rows in each of them are counted once."""
        load(policies(1_000, cancelled=range(60)))
        load(policies(1_000, cancelled=range(5, 60)), mode="merge")
        third = policies(1_000, cancelled=range(10, 60))
        assert broken(third, mode="merge") == ["values"]
        with pytest.raises(RulesBroken, match="10 of 60 rows would lose cancelledOn"):
            load(third, mode="merge")

    def test_worse_answers_add_up(self, load, broken):
        """Nine rows a night, and better answers of later nights make them up."""
        load(cars(200))
        load(cars(9, mot="2026-02-01"), mode="merge")
        assert broken(cars(9, first=9, mot="2026-02-01"), mode="merge") == ["dates", "mot"]
        load(cars(9), mode="merge")
        load(cars(9, first=9, mot="2026-02-01"), mode="merge", accept=["dates"])

    @each_row("ends", ["replace", "accept", "allow", "days"])
    def test_what_ends_the_sum(self, world, ends):
        """A replace, an acceptance or 30 days end the sum."""
        register = f"r{ends}"

        def merge(first: int, **options: Any) -> Any:
            path = files(world, a=cars(9, first=first, mot=""))[0]
            return world.load_files(path, mode="merge", register=register, **options)

        whole = files(world, b=cars(1_000))[0]
        world.load_files(whole, mode="replace", register=register)
        merge(0)
        if ends == "replace":
            world.load_files(whole, mode="replace", register=register)
        elif ends == "accept":
            merge(100, accept=["values"])
        elif ends == "allow":
            merge(100, allow_loss=["motExpiry"])
        else:
            seconds = RegisterLoad.started_at - baseline._ADDED_UP_SECONDS - 1
            is_merge = RegisterLoad.mode == "merge"
            RegisterLoad.update(started_at=seconds).where(is_merge).execute(world.engine)
        assert merge(9).changed == 9

    def test_a_merge_that_was_killed_counts(self, world, load, broken):
        """What it changed is noted before its commit."""
        load(cars(1_000))
        load(cars(9, mot=""), mode="merge")
        RegisterLoad.update(status="running", finished_at=None).where(
            RegisterLoad.id == latest(world).id
        ).execute(world.engine)
        with pytest.raises(RulesBroken, match="values"):
            load(cars(9, first=9, mot=""), mode="merge")


class TestAnswers:
    @each_row(("lost", "is_refused"), [(4, False), (9, False), (39, False), (40, True)])
    def test_few_plates_may_lose_cover(self, world, lost, is_refused):
        """More than 4 %, and at least ten, are refused."""
        register = f"r{lost}"
        rows = (
            policies(1_000, cancelled=range(900, 910)),
            policies(1_000, cancelled=range(900 - lost, 910)),
        )
        world.load_files(files(world, a=rows[0])[0], mode="replace", register=register)
        path = files(world, a=rows[1])[0]
        if is_refused:
            with pytest.raises(RulesBroken):
                world.load_files(path, mode="replace", register=register, accept=["insurers"])
        else:
            world.load_files(path, mode="replace", register=register, accept=["insurers"])
        drop_register(world.engine, register)

    def test_another_register_can_cover_the_plates(self, world, load):
        """Answers are those of all registers: nobody loses cover."""
        world.load_files(files(world, a=policies(100))[0], register="other")
        load(policies(100, insurer="BOLT"))
        load(policies(100, insurer="BOLT", cancelled=range(3, 60)))

    @ON_SQLITE
    def test_another_register_that_is_gone_prevents_no_load(self, world, load, broken):
        """The load notes it, counts without it, and its rules apply."""
        other = world.load_files(files(world, a=policies(100))[0], register="other").load
        register_file(world.database, "other", other).unlink()
        told = "the register other cannot be read, so answers were counted without it"
        assert load(cars(100)).notes == [told]
        assert broken(cars(100, mot="")) == ["values", "mot"]

    def test_numbers_can_move_to_plates_that_had_none(self, load, broken):
        """No cover is lost, because the plates that they leave get others."""
        load(policies(100))
        moved = policies(100).replace("AB0000", "AB0010")
        _, others = policies(10).replace(",P", ",Q").split("\n", 1)
        assert broken(moved + others) == ["numbers"]

    def test_each_insurer_counts(self, load, broken):
        """Half of a small insurer's plates are few of all."""
        small, large = policies(20, insurer="BOLT", cancelled=range(1)), policies(1_000)
        load(small + large.split("\n", 1)[1].replace("AB00", "CD00"))
        few = policies(20, insurer="BOLT", cancelled=range(11))
        assert broken(few + large.split("\n", 1)[1].replace("AB00", "CD00")) == ["insurers"]

    def test_years_before_the_first_mot_count(self, world, load):
        """Both sides are judged as look-ups judge them."""
        basis = LoadBasis(DAY.isoformat(), (), {EVERY_REGISTER: 3})
        header = "registration,make,motExpiry,firstRegistered\n"
        load(header + "".join(f"AB{n},FORD,2027-01-01,\n" for n in range(100)), basis=basis)
        new = "".join(f"AB{n},FORD,,{later(-30)}\n" for n in range(100))
        load(header + new, basis=basis, accept=["values"])


@pytest.mark.parametrize("mode", ["merge", "replace"])
class TestADaySooner:
    """Agencies write the first day without, which 1.0.0 stored as the last day with."""

    def test_last_days_that_move_back_by_one_day_break_no_rule(self, world, load, mode):
        """Not even if vehicles lose a check thereby; a note and the history say how many."""
        load(papers(100, mot=later(0), tax=later(0)))
        result = load(papers(100, mot=later(-1), tax=later(-1)), mode=mode)
        notes = ["motExpiry moved back by one day in 100 rows", "taxDue moved back by one day in"]
        assert result.notes == [notes[0], f"{notes[1]} 100 rows"]
        change: Any = change_of(latest(world))
        assert change.answers["mot"].lost == change.answers["tax"].lost == 100
        assert change.day_sooner == {"mot": 100, "tax": 100}
        assert change.members["taxDue"].day_sooner == 100
        assert not brief(change).is_bad

    def test_more_than_a_day_does(self, load, broken, mode):
        """Days of another week are damage."""
        load(papers(100, mot=later(0), tax=later(30)))
        assert broken(papers(100, mot=later(-2), tax=later(30)), mode=mode) == ["dates", "mot"]
        assert broken(papers(100, mot=later(0), tax=later(-1)), mode=mode) == ["dates", "tax"]

    def test_another_reason_counts(self, load, broken, mode):
        """Tax that is not paid any more, and another day that moves further."""
        load(papers(100, mot=later(0), tax=later(0)))
        unpaid = papers(100, mot=later(-1), tax=later(-1), status="untaxed")
        assert broken(unpaid, mode=mode) == ["tax"]

    def test_policies_do(self, load, broken, mode):
        """No agency writes their days, and no mapping says that they are the first day without."""
        load(policies(100))
        sooner = policies(100).replace("2026-12-31", "2026-12-30")
        assert broken(sooner, mode=mode) == ["dates"]


def test_the_page_has_the_table_of_rules():
    """Each rule is a row of the table, in the words of the program."""
    page = (ROOT / "deploy" / "docs" / "refused.md").read_text().replace("`", "")
    assert [name for name, text in RULES.items() if f"\n| {name} | {text} |" not in page] == []
