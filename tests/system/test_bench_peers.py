"""The benchmark beside other stacks runs, with those that can be installed here."""

import json
import subprocess
import sys

import pytest

from tests.bench.peers.contestants import KNOWN
from tests.bench.peers.report import PARTS
from tests.programs import needs
from tests.system.processes import ROOT

_SECONDS_MAX = 1_800


@pytest.mark.system_long
@needs("wrk", "wrk")
def test_every_part_can_be_measured(tmp_path):
    """Every contestant that runs here gives verifyd's answers, and every part has figures."""
    results, chart = tmp_path / "results.json", tmp_path / "chart.svg"
    small = ["--rows", "1000", "--seconds", "1", "--rounds", "1", "--rate", "50"]
    # Of many bulks at once, a slow machine may answer none in a second.
    small += ["--connections", "2"]
    files = ["--json", results, "--svg", chart, "--directory", tmp_path]
    words = [sys.executable, "-m", "tests.bench.peers", *PARTS, *small, "--sizes", "500", "1500"]
    ended = subprocess.run(
        [*words, *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    document = json.loads(results.read_text())
    figures, left_out = document["figures"], document["left_out"]
    assert list(figures) == list(PARTS)
    for part in ("lookup", "compliance", "bulk", "rate"):
        able = {name for name, known in KNOWN.items() if known.takes_part(part)}
        assert figures[part].keys() == able - left_out.keys()
    # They need no more than verifyd's own tests.
    assert left_out.keys().isdisjoint({"verifyd", "nginx", "postgres"})
    assert all(samples for part in figures.values() for samples in part.values())
    assert chart.read_text().count("<rect") > 1
