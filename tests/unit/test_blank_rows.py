"""Rows of a CSV with nothing but separators, and last records that lack fields."""

import pytest

from app.registers.formats import FileFault
from tests.rows import each_row
from tests.unit.register_files import read


class TestRowsOfSeparators:
    @each_row("line", [",,", " , ,", ",", ",,,,,,", '"","",""', "\t,,", '"",,'])
    def test_they_are_blank_lines(self, line) -> None:
        """Spreadsheets write them below the last row; they are no records."""
        text = f"registration,make,model\nA1,FORD,\n{line}\nA2,FORD,\n"
        changes, heard = read(text)
        assert ([each[0] for each in changes], heard.rejects) == (["A1", "A2"], [])

    def test_a_row_with_a_value_is_rejected(self) -> None:
        """A row without registration may be one that has lost it."""
        heard = read("registration,make,model\n,FORD,\n").heard
        assert heard.rejects == [(2, "no registration")]

    def test_what_the_last_record_lacks(self) -> None:
        """A last record with too few fields says how many it has."""
        with pytest.raises(FileFault) as caught:
            read("registration,make,model\nA1,FORD")
        assert str(caught.value) == (
            "The last record, in line 2, has 2 fields where the header has 3, and has no line end, "
            "so the file is cut off; get the complete file."
        )
