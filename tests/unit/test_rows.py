"""Tests over tables: a row that fails is named, and costs no other row its test."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import pytest

from tests.rows import each_row


class TestTwoTables:
    @each_row("one", ["a", "b"])
    @each_row(("two", "three"), [("c", 0), pytest.param("d", 1, id="last")])
    def test_pairs(self, tmp_path, one, two, three):
        assert one + two != "ad"


@each_row("divisor", [3, 0, 4, 5, 6], ids="number {}".format)
def test_divisors(divisor):
    tried.append(12 // divisor)
    if divisor == 6:
        raise SystemExit(2)
    with pytest.raises(KeyError):
        {0: 0}[12 % divisor]


tried = []


def test_all_were_tried():
    assert tried == [4, 3, 2, 2]
"""


def test_each_row_that_fails_is_named(tmp_path):
    """Wrong values, errors, exits and missing errors fail their rows, and all are tried."""
    path = tmp_path / "test_tables.py"
    path.write_text(TESTS)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", f"--rootdir={tmp_path}", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    named = re.findall(r"(?m)^_+ (.*) \[(row .*)\] _+$", ended.stdout)
    assert named == [
        ("TestTwoTables.test_pairs", "row 2: 'a' last"),
        ("test_divisors", "row 1: number 3"),
        ("test_divisors", "row 2: number 0"),
        ("test_divisors", "row 3: number 4"),
        ("test_divisors", "row 5: number 6"),
    ]
    assert "7 failed, 1 passed" in ended.stdout  # Five rows in two tests.
