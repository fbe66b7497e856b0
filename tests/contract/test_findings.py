"""Each script of `findings/` says what it is about, and installs exactly that. No test runs one."""

import os
import re
from pathlib import Path

from tests.contract.pages import ROOT, table
from tests.rows import each_row

SCRIPTS = sorted((ROOT / "findings").glob("*.sh"))
_PIN = re.compile(r"[@\w./-]+(?:==|@)[0-9][\w.]*")
_HEAD = re.compile(
    r"#!/bin/sh\n"
    r"# Version: (?P<version>.+)\n"
    r"# Guess: .+\n(?:#     .+\n)*"
    r"# Behaviour: .+\n(?:#     .+\n)*"
    r"set -eu\n"
    r"folder=\$\(mktemp -d\)\n"
    r"trap 'rm -rf \"\$folder\"' EXIT\n"
)
_END = """
printf '%s\\n' "$saw"
[ "$saw" = "$described" ] || { echo "changed: it was"; echo "$described"; exit 1; }
"""


@each_row("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_says_versions_guess_and_behaviour(script: Path):
    """The head names every package that the script installs, with its version, and no other."""
    text = script.read_text(encoding="utf-8")
    head = _HEAD.match(text)
    assert head is not None
    installed = re.findall(r"install .*\\\n    (.+) \|\| exit 77\n", text)
    assert head["version"].split() == " ".join(installed).split()
    assert [word for word in head["version"].split() if not _PIN.fullmatch(word)] == []


@each_row("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_can_be_started_and_compares(script: Path):
    """It is executable, and ends with the comparison that decides its exit status."""
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").endswith(_END)


def test_the_table_has_every_script():
    """The page of findings has a row for each script, in their order."""
    told = [row[0].strip("`") for row in table("Script")]
    assert told == [script.name for script in SCRIPTS]


def test_no_change_waits_for_findings():
    """Only their own target runs the scripts: they need an index, and take minutes."""
    assert "findings" not in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert len(re.findall(r"findings/\*\.sh", makefile)) == 1
