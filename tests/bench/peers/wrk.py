"""Drives a contestant with wrk: as many requests as it answers, over some connections."""

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.bench.peers.contestants import Contestant

_SCRIPT = Path(__file__).with_name("wrk.lua")
_MARK = "PEERS "


class Requests(NamedTuple):
    """A file of requests for wrk: a path in each line, or a body in each line for one path."""

    file: Path
    posted_to: str | None = None


class Driven(msgspec.Struct):
    """What wrk measured in one run."""

    answers: int
    micros: int
    p50_us: int
    p99_us: int
    refused: int
    """Answers with a status of 400 or more."""
    failed: int
    """Connections that broke, and requests without an answer."""


def drive(
    contestant: Contestant, requests: Requests, key: str, *, seconds: int, connections: int
) -> Driven:
    """Run wrk for this long. Raises RuntimeError unless every answer was a success."""
    words = ["wrk", "-t", "1", "-c", str(connections), "-d", f"{seconds}s", "--timeout", "30s"]
    posted_to = {"PEERS_PATH": requests.posted_to} if requests.posted_to else {}
    ended = subprocess.run(
        [*words, "-s", str(_SCRIPT), contestant.url, "--", str(requests.file)],
        env={**os.environ, "PEERS_KEY": key, **posted_to},
        capture_output=True,
        text=True,
        check=False,
    )
    lines = [line for line in ended.stdout.splitlines() if line.startswith(_MARK)]
    if ended.returncode or not lines:
        raise RuntimeError(f"wrk failed: {ended.stdout}{ended.stderr}")
    driven = msgspec.json.decode(lines[0].removeprefix(_MARK), type=Driven)
    # Measuring failures is useless.
    if driven.refused or driven.failed or not driven.answers:
        raise RuntimeError(f"{contestant.title}: requests failed: {driven}")
    return driven
