"""Tests have a limit of time (`timeout` in setup.cfg)."""

import re
import subprocess
import sys

from tests.system.processes import ROOT

TESTS = """
import hypothesis
from hypothesis import strategies as st

def test_a_loop():
    while True:
        pass

@hypothesis.given(st.booleans())
def test_an_example(value):
    while value:
        pass

def test_another():
    pass
"""


def test_a_test_that_hangs_is_named(tmp_path):
    """It fails, also where hypothesis would try the example again, and the next test runs."""
    path = tmp_path / "test_hanging.py"
    path.write_text(TESTS)
    words = ["-c", "setup.cfg", "-p", "tests.conftest", "-p", "no:cacheprovider", "-rA"]
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "--timeout", "1", path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.findall(r"(?m)^(PASSED|FAILED) \S*::(\w+)", ended.stdout) == [
        ("PASSED", "test_another"),
        ("FAILED", "test_a_loop"),
        ("FAILED", "test_an_example"),
    ], ended.stdout + ended.stderr
    assert ended.stdout.count("Failed: Timeout (>1.0s)") > 0
    assert ended.stdout.count("TimedOut: Timeout (>1.0s)") > 0
