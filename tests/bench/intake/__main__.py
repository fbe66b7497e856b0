"""`python -m tests.bench.intake`: the speed of loads, and their effect on the service.

Alternatives are measured alternately, so that a busy machine slows all of them alike: compare
within a run, not between runs. Figures are medians.
"""

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.bench.intake.national import print_national
from tests.bench.intake.postgres import print_beside_copy
from tests.bench.intake.service import print_latencies
from tests.bench.intake.sqlite import print_beside_shell, print_linearity
from tests.bench.interpreter import description

Part = Callable[[Path, int, int], None]
PARTS: dict[str, Part] = {
    "sqlite": print_beside_shell,
    "postgres": print_beside_copy,
    "linear": print_linearity,
    "service": print_latencies,
    "national": print_national,
}
USUAL = ["sqlite", "postgres", "linear", "service"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.intake", description=__doc__)
    what = f"of {', '.join(PARTS)}; default: all but national, which takes hours"
    parser.add_argument("parts", metavar="PART", nargs="*", help=what)
    parser.add_argument("--rows", type=int, default=4_000_000, help="default: %(default)s")
    parser.add_argument("--runs", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--directory", type=Path, help="where to work; default: a temporary one")
    args = parser.parse_args()
    if unknown := set(args.parts) - PARTS.keys():
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    print(
        f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, Python {description()}\n",
        flush=True,
    )
    with TemporaryDirectory(prefix="verifyd-bench-", dir=args.directory) as directory:
        for part in args.parts or USUAL:
            PARTS[part](Path(directory), args.rows, args.runs)


if __name__ == "__main__":
    main()
