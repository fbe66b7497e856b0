"""Measures the audit trail: `python -m tests.bench.audit --records 10000000 --directory DIR`.

The trail is made of hours of `--hourly` records each, and is left in DIR, so that a second run
measures `verify` and `search` only.
"""

import argparse
import os
import random
import resource
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from app.audit.index import IndexReader
from app.audit.owner import claim
from app.audit.record import Plate, Record, time_of
from app.audit.seal import seal
from app.audit.search import Query, estimate, plan, search
from app.audit.segments import Segment, list_segments
from app.audit.trail import Trail
from app.audit.verify import verify
from app.audit.view import view_of

_BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
_PLATES = 5_000_000
_T = TypeVar("_T")
_LINE = (
    '{{"time":"{time}.{micro:06}Z","request_id":"{id:032x}","account":"acme{account}",'
    '"key":"4JzACp7B","operation":"insurance","reason":"claim","reference":"C-{id}",'
    '"user":"user{user}","plates":[{{"plate":"P{plate:07}","found":true,"insured":true}}],'
    '"registers":{{"dvla":17,"native":3}}}}\n'
)


def main() -> None:
    """Run every part, and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--hourly", type=int, default=10_000)
    parser.add_argument("--directory", type=Path, required=True)
    args = parser.parse_args()
    measure_appends(args.directory / "appends")
    trail = args.directory / "trail"
    if not trail.exists():
        fill(trail, args.records, args.hourly)
        cpu = time.process_time()
        took, _ = timed(lambda: seal(trail, current=True))
        cpu = (time.process_time() - cpu) / args.records
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"seal: {took:.1f} s, {cpu * 1e6:.2f} us of CPU a record; peak {peak:.0f} MB")
    took, verdict = timed(lambda: verify(trail))
    print(f"verify: {verdict.records:,} records in {took:.1f} s; faults {len(verdict.faults)}")
    measure_searches(trail)


def timed(run: Callable[[], _T]) -> tuple[float, _T]:
    """Return how many seconds a function takes, and what it returns."""
    began = time.perf_counter()
    result = run()
    return time.perf_counter() - began, result


def fill(directory: Path, records: int, hourly: int) -> None:
    """Write segments as look-ups would, without their syncs."""
    claim(directory, "b" * 32)
    random.seed(1)
    for number, start in enumerate(range(0, records, hourly), 1):
        hour = _BEGIN + timedelta(hours=number)
        shown = hour.strftime("%Y-%m-%dT%H:30:00")
        path = directory / Segment(number, hour.strftime("%Y%m%dT%H")).file_name
        with path.open("w") as file:
            file.writelines(
                _LINE.format(
                    time=shown,
                    micro=n % 1_000_000,
                    id=n,
                    account=n % 50,
                    user=n % 977,
                    plate=random.randrange(_PLATES),
                )
                for n in range(start, min(start + hourly, records))
            )


def measure_appends(directory: Path) -> None:
    """Print what an append costs, in CPU time of the thread, without and with the encoding."""
    owner = claim(directory, "b" * 32)
    trail = Trail(directory, lambda: owner)
    one = [Plate("AB12CDE", found=True, insured=True)]
    bulk = [Plate(f"P{n:07}", found=True, insured=True) for n in range(1_000)]
    for name, plates, times in (("single", one, 20_000), ("bulk of 1,000", bulk, 500)):
        runs = []
        for _ in range(7):
            began = time.thread_time()
            for _ in range(times):
                record = Record(
                    time=time_of(time.time_ns()),
                    request_id="a" * 32,
                    account="acme",
                    key="4JzACp7B",
                    operation="insurance",
                    plates=plates,
                    registers={"native": 3, "dvla": 17},
                )
                trail.append(record)
            runs.append((time.thread_time() - began) / times)
        print(f"append, {name}: {min(runs) * 1e6:.1f} us of CPU with record and encoding")
    trail.close()


def measure_searches(directory: Path) -> None:
    """Print what searches cost when nothing of the trail is in memory."""
    for query in (Query("account", "acme7"), Query("user", "user7"), Query("user", "nobody")):
        forget(directory)
        newest = islice(search(view_of(directory), query, newest_first=True), 100)
        found: list[Record]
        took, found = timed(partial(list, newest))
        about = estimate(view_of(directory), query, lambda _record: None)
        print(
            f"newest {len(found)} by {query.kind}: {took:.3f} s; "
            f"all {about.records:,} take about {about.seconds:.1f} s"
        )
    runs, records = [], 0
    for _ in range(20):
        forget(directory)
        query = Query("plate", f"P{random.randrange(_PLATES):07}")
        find: Callable[[], list[Record]] = partial(list, search(view_of(directory), query))
        took, found = timed(find)
        runs.append(took)
        records += len(found)
    parts = plan(view_of(directory), query, scan=False)
    blocks = sum(len(part.blocks or []) for part in parts)
    files = list((directory / "index").iterdir())
    reads = 0
    for file in files:
        with IndexReader(file) as reader:
            list(reader.find(b"\x80" * 8))
            reads += reader.reads
    runs.sort()
    print(
        f"search: median {runs[10]:.3f} s, most {runs[-1]:.3f} s, {records / 20:.1f} records each; "
        f"{len(list_segments(directory)):,} segments, {len(files)} index files of "
        f"{sum(file.stat().st_size for file in files) / 1e6:.0f} MB, {reads} reads of 16 bytes, "
        f"{blocks} blocks of 64 KiB"
    )


def forget(directory: Path) -> None:
    """Remove all files of a trail from the page cache."""
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


if __name__ == "__main__":
    main()
