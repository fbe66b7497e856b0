"""Words that other programs write for a missing value, and ends that are open."""

import pytest

from app.registers.formats import values
from app.registers.formats.mapped import MappedCsv
from app.registers.formats.mapping_file import read_mapping
from app.registers.reading.rejects import RejectLimit, TooManyRejects
from app.storage.tables import FineRow, PolicyRow, VehicleRow
from tests.conftest import ON_SQLITE, STORAGE
from tests.rows import each_row
from tests.unit.register_files import outcome, read

ANYWHERE = (r"\N", "NaN", "nan", "NaT", "<nil>", "<NA>", "(null)")
IN_DAYS = ("NA", "N/A", "#N/A", "None", "nil", "-", "--", "NULL", " na ")
POLICIES = "registration,number,insurer,validFrom,validTo,cancelledOn,type\n"


def test_days_times_and_years() -> None:
    """Such a word can only mean that the value is missing; the row is loaded."""
    header = "registration,year,motExpiry,taxDue,firstRegistered,lastUpdated\n"
    words = [*ANYWHERE, *IN_DAYS]
    text = header + "".join(f"A{n},{w},{w},{w},{w},{w}\n" for n, w in enumerate(words))
    changes, heard = read(text)
    assert [tuple(each) for each in changes] == [VehicleRow(f"A{n}") for n in range(len(words))]
    assert (heard.rejects, heard.unread) == ([], {})
    counted = dict.fromkeys(
        ("year", "motExpiry", "taxDue", "firstRegistered", "lastUpdated"), len(words) - 1
    )
    assert heard.nothing == counted  # `null` was always missing.


@each_row("word", [*ANYWHERE, *IN_DAYS])
def test_a_cancellation_that_is_missing(word) -> None:
    """A policy without a day of cancellation is not cancelled; nor is its fine settled."""
    row = outcome(f"{POLICIES}A1,1,X,2026-01-01,2026-12-31,{word},\n")
    assert row == PolicyRow("A1", "X", "1", "2026-01-01", "2026-12-31")
    fine = outcome(f"registration,reference,amount,settledOn,currency\nA1,1,5,{word},{word}\n")
    assert fine == FineRow("A1", "1", None, 500, None, False)


@each_row("word", ANYWHERE)
def test_flags_statuses_and_amounts(word) -> None:
    """Words that can only be missing are; an amount is then needed."""
    row = outcome(f"registration,insured,motExempt,taxStatus\nA1,{word},{word},{word}\n")
    assert row == VehicleRow("A1")
    assert outcome(f"registration,reference,amount\nA1,1,{word}\n") == "no amount"


@each_row("word", ["NA", "N/A", "-", "--", "None", "nil"])
def test_others_stay_refused(word) -> None:
    """`-` can be zero or no, and `N/A` exempt: the reason names the table that can say so."""
    flag = outcome(f"registration,insured\nA1,{word}\n")
    assert flag == (
        f"insured: neither true nor false; [words.insured] of a mapping can translate it: {word!r}"
    )
    amount = outcome(f"registration,reference,amount\nA1,1,{word}\n")
    told = "amount: not a decimal; [words.amount] of a mapping can say what the word means"
    assert amount == f"{told}: {word!r}"
    heard = read(f"registration,taxStatus\nA1,{word}\n").heard
    assert heard.unread == {"taxStatus": 1}


def test_texts() -> None:
    r"""Only `\N` is no text, and no number or reference either."""
    header = "registration,make,model,color\n"
    assert outcome(header + "A1,\\N,NA,-\n") == VehicleRow("A1", None, "NA", color="-")
    row = outcome(POLICIES + "A1,1,\\N,2026-01-01,2026-12-31,,\\N\n")
    assert row == PolicyRow("A1", "", "1", "2026-01-01", "2026-12-31")
    assert outcome(POLICIES + "A1,\\N,X,2026-01-01,2026-12-31,,\n") == "no number"
    assert outcome("registration,reference,amount\nA1,\\N,5\n") == "no reference"


@each_row("plate", ["NULL", "NA", "NONE", "NIL", "NAN"])
def test_plates(plate) -> None:
    """A word is a plate where a plate is expected."""
    assert outcome(f"registration,make\n{plate},FORD\n") == VehicleRow(plate, "FORD")


@pytest.fixture
def mapped(tmp_path):
    """Make the format of a mapping with the members of policies."""

    def make(words: str) -> MappedCsv:
        names = "registration number insurer validFrom validTo cancelledOn".split()
        columns = "".join(f'{name} = "{name}"\n' for name in names)
        path = tmp_path / "mapping.toml"
        path.write_text(f'kind = "policies"\nregister = "own"\n[columns]\n{columns}{words}')
        return MappedCsv(read_mapping(path))

    return make


def test_the_words_of_a_mapping_win(mapped) -> None:
    """What the operator says of a word counts, and such a word is not counted."""
    format_ = mapped('[words.cancelledOn]\nNA = "2026-06-01"\n"-" = ""\n')
    text = POLICIES + "".join(f"A1,{w},X,2026-01-01,2026-12-31,{w},\n" for w in ("NA", "-", "--"))
    changes, heard = read(text, format_)
    days = [PolicyRow._make(each).cancelled_on for each in changes]
    assert (days, heard.nothing) == (["2026-06-01", None, None], {"cancelledOn": 1})


@ON_SQLITE
def test_the_note(cli) -> None:
    """A load counts the words by column, and shows none."""
    file = cli.directory / "vehicles.csv"
    file.write_text("registration,motExpiry,insured\nA1,NA,\\N\nA2,-,true\nA3,2027-01-01,\n")
    result = cli.json("import", file)
    told = "words such as NA, None or - count as missing: 1 of insured, 2 of motExpiry"
    assert (result["loaded"], result["notes"]) == (3, [told])


class TestOpenEnds:
    def test_the_refusal_says_how_to_load_them(self, mapped) -> None:
        """An empty end and Postgres's infinity need a word of the operator."""
        remedy = "; if the policy has no end, [words.validTo] of a mapping can say so with "
        row = "A1,1,X,2026-01-01,{},,\n"
        for word in ("", "NA", r"\N"):
            told = outcome(POLICIES + row.format(word))
            assert told == f'no validTo{remedy}"{word}" = "9999-12-31"'
        told = outcome(POLICIES + row.format("infinity"))
        assert told == f'validTo: not a date{remedy}"infinity" = "9999-12-31": \'infinity\''
        words = '"" = "9999-12-31"\ninfinity = "9999-12-31"\n'
        format_ = mapped(f"[words.validTo]\n{words}")
        for word in ("", "infinity"):
            assert PolicyRow._make(outcome(POLICIES + row.format(word), format_)).valid_to == (
                "9999-12-31"
            )

    @ON_SQLITE
    def test_nothing_advises_to_leave_them_out(self, world) -> None:
        """Without these policies their vehicles would be uninsured."""
        file = world.directory / "policies.csv"
        file.write_text(POLICIES + "A1,1,X,2026-01-01,,,\nA2,2,X,2026-01-01,2026-12-31,,\n")
        with pytest.raises(TooManyRejects) as caught:
            world.load_files(file, max_rejects=RejectLimit.parse("1%"))
        assert "--max-rejects" not in str(caught.value)
        assert "their vehicles would be uninsured" in str(caught.value)


@STORAGE
def test_policies_that_were_stored_with_the_word(world, monkeypatch) -> None:
    r"""A merge cannot change the key `\N` of 1.0.0; a note says how many there are."""
    file = world.directory / "policies.csv"
    file.write_text(POLICIES + "A1,1,\\N,2026-01-01,2099-12-31,,\nA2,2,X,2026-01-01,2099-12-31,,\n")
    with monkeypatch.context() as former:
        former.setattr(values, "TEXT_NOTHING", frozenset())
        world.load_files(file)
    merged, replaced = (world.load_files(file, mode=mode) for mode in ("merge", "replace"))
    told = r"1 policy in force is stored with the insurer \N, which now means none; a merge leaves"
    assert [note.startswith(told) for note in merged.notes].count(True) == 1
    assert merged.held == 3
    assert not any(note.startswith(told) for note in replaced.notes)
    assert replaced.held == 2
