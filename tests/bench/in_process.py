"""Whole requests within one process, from the WSGI call to the bytes of the answer.

`python -m tests.bench.in_process` prints the processor time of each operation. With `--against`
it also runs another tree, such as the checkout of an earlier commit, and alternates between both,
so that a busy machine slows both alike. Everything is on: limits, metrics, and the access log,
which goes to `/dev/null`.
"""

import argparse
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import cycle
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).parents[2]
BULK = 1_000
_ROUNDS = 60
_CALLS = 200


class Tree:
    """A process that answers requests with the program of one tree."""

    def __init__(self, tree: Path, python: str, settings: Sequence[str]) -> None:
        command = [python, "-P", __file__, "--answer", *settings]
        self.process = subprocess.Popen(
            command,
            env=os.environ | {"PYTHONPATH": str(tree)},
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )

    def cost_us(self, name: str, calls: int) -> float:
        """Return the processor time of one call [microseconds]."""
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        self.process.stdin.write(f"{name}\n{calls}\n")
        self.process.stdin.flush()
        told = self.process.stderr.readline()
        if not told.startswith("cost "):
            raise SystemExit(told + self.process.stderr.read())
        return float(told.split()[1])

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def answer(url: str, state: str, key: str, plates_file: str) -> None:
    """Answer requests until stdin ends. Runs in the process of a tree."""
    # The other tree has no module of this name, so everything is imported here.
    from app.config import Config  # noqa: PLC0415
    from app.main import create_app  # noqa: PLC0415
    from app.serve.http import metrics_files  # noqa: PLC0415

    state_dir = Path(state)
    metrics_files.prepare(state_dir)
    config = Config(database_url=url, state_dir=state_dir, access_log=True)
    measured = _calls(create_app(config), key, json.loads(Path(plates_file).read_text()))
    for line in sys.stdin:
        call, calls = measured[line.strip()], int(sys.stdin.readline())
        call()
        started_ns = time.process_time_ns()
        for _ in range(calls):
            call()
        passed_ns = time.process_time_ns() - started_ns
        print("cost", passed_ns / calls / 1_000, file=sys.stderr, flush=True)


def _calls(app: Any, key: str, plates: list[str]) -> dict[str, Callable[[], None]]:
    from falcon.testing import create_environ  # noqa: PLC0415

    headers = {"Authorization": f"Bearer {key}", "X-Request-ID": "0" * 32}
    environ = create_environ(headers=headers | {"Content-Type": "application/json"})
    environ["REMOTE_ADDR"] = ""  # nginx comes over a Unix socket.
    known = cycle(plates)
    bulks = cycle(
        json.dumps({"registrations": plates[start : start + BULK]}).encode()
        for start in range(0, 10 * BULK, BULK)
    )

    def send(method: str, path: str, body: bytes = b"", expected: str = "200") -> None:
        asked = environ | {"REQUEST_METHOD": method, "PATH_INFO": path}
        asked |= {"CONTENT_LENGTH": str(len(body)), "wsgi.input": io.BytesIO(body)}
        statuses: list[str] = []
        b"".join(app(asked, lambda status, _headers, *_: statuses.append(status)))
        if not statuses[0].startswith(expected):
            raise AssertionError(statuses)

    return {
        "insurance": lambda: send("GET", f"/v1/vehicle/{next(known)}/insurance"),
        "compliance": lambda: send("GET", f"/v1/compliance/{next(known)}"),
        "unknown plate": lambda: send("GET", "/v1/compliance/NONE", expected="404"),
        "bulk": lambda: send("POST", "/v1/vehicle/bulk-insurance", next(bulks)),
        "bulk compliance": lambda: send("POST", "/v1/compliance/bulk", next(bulks)),
    }


@contextmanager
def _installation(directory: Path | None, vehicles: int) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the URL of a database, a key of it and known plates in random order."""
    from tests.bench.__main__ import build, plate  # noqa: PLC0415 - the other tree's differ

    chance = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="verifyd-bench-") as own:
        place = directory or Path(own)
        database = place / "bench.db"
        if not database.exists():
            (place / "key").write_text(build(place, vehicles)[1])
        plates = [plate(chance.randrange(vehicles)) for _ in range(20_011)]
        yield f"sqlite:///{database}", (place / "key").read_text(), plates


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.in_process", description=__doc__)
    parser.add_argument("--vehicles", type=int, default=200_000, help="default: %(default)s")
    parser.add_argument("--directory", type=Path, help="keep the database here, and use it again")
    parser.add_argument("--against", type=Path, metavar="TREE", help="another tree to compare")
    parser.add_argument("--python", default=sys.executable, help="its interpreter [this one]")
    parser.add_argument("--rounds", type=int, default=_ROUNDS, help="default: %(default)s")
    parser.add_argument("--only", nargs="+", metavar="OPERATION", help="[all]")
    args = parser.parse_args()
    from tests.bench.interpreter import description  # noqa: PLC0415 - the other tree has none

    names = args.only or ["insurance", "compliance", "unknown plate", "bulk", "bulk compliance"]
    with ExitStack() as running:
        url, key, plates = running.enter_context(_installation(args.directory, args.vehicles))
        scratch = Path(running.enter_context(tempfile.TemporaryDirectory(dir="/dev/shm")))
        (scratch / "plates").write_text(json.dumps(plates))
        trees = [(HERE, sys.executable), *([(args.against, args.python)] if args.against else [])]
        processes = [
            running.enter_context(
                closing(Tree(tree, python, [url, f"{scratch}/{n}", key, f"{scratch}/plates"]))
            )
            for n, (tree, python) in enumerate(trees)
        ]
        for _, python in trees:
            print(f"Python {description(python)}")
        for name in names:
            calls = _CALLS // 50 if "bulk" in name else _CALLS
            costs: list[list[float]] = [[] for _ in processes]
            for _ in range(args.rounds):
                for process, taken in zip(processes, costs, strict=True):
                    taken.append(process.cost_us(name, calls))
            ours, *others = map(median, costs)
            pairs = zip(costs[0], costs[-1], strict=True)
            ratio = median(mine / other for mine, other in pairs)
            compared = "".join(f"{other:12,.1f} us{ratio:8.3f}" for other in others)
            print(f"{name:20}{ours:12,.1f} us{compared}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answer"]:
        answer(*sys.argv[2:])
    else:
        main()
