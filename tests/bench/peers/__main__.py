"""`python -m tests.bench.peers`: verifyd compared with other stacks, and with its targets.

All contestants run on this machine at the same time, with the same data and as many processes, and
are measured alternately. So a busy machine slows all of them alike: compare within a run, not
between runs. wrk and the contestants share the cores.
"""

import argparse
import os
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from tests.bench.peers.alone import ALONE
from tests.bench.peers.answers import WrongAnswerError
from tests.bench.peers.chart import chart
from tests.bench.peers.compared import COMPARED, compare
from tests.bench.peers.contestants import KNOWN
from tests.bench.peers.data import build
from tests.bench.peers.environments import MissingError, require_program
from tests.bench.peers.report import PARTS, fill, table, text_report
from tests.bench.peers.results import Options, Results, this_machine
from tests.bench.peers.targets import verdicts

USUAL = [part for part in PARTS if part != "growth"]


def main() -> None:
    args = _arguments()
    if args.read:
        _write(msgspec.json.decode(args.read.read_bytes(), type=Results), args)
        return
    try:
        require_program("wrk", "wrk")
    except MissingError as error:
        sys.exit(f"bench-peers: {error}")
    results = Results(this_machine(args.python), _options(args), {}, {})
    try:
        _measure(results, args)
    except WrongAnswerError as error:
        sys.exit(f"bench-peers: {error}")
    finally:
        # A run takes long: if it fails, what was measured so far is not lost.
        if results.figures:
            _write(results, args)


def _write(results: Results, args: argparse.Namespace) -> None:
    """Print results, and write them to the files and pages that are wanted."""
    print(f"\n{text_report(results)}")
    if args.json:
        args.json.write_bytes(as_json(results))
    if args.svg and results.subjects("lookup"):
        args.svg.write_text(chart(results))
    for page in args.page:
        picture = f"![Look-ups per second]({os.path.relpath(args.svg, page.parent)})\n"
        fill(page, {"chart": picture, "table": table(results)})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peers", description=__doc__)
    what = f"of {', '.join(PARTS)}; default: all but growth, which builds a large register"
    parser.add_argument("parts", metavar="PART", nargs="*", help=what)
    add = parser.add_argument
    add("--rows", type=int, default=1_000_000, help="vehicles; default: %(default)s")
    add("--seconds", type=int, default=10, help="of each round; default: %(default)s")
    add("--rounds", type=int, default=3, help="default: %(default)s")
    add("--processes", type=int, default=2, help="of each contestant; default: %(default)s")
    add("--connections", type=int, default=16, help="of wrk; default: %(default)s")
    add("--rate", type=int, default=500, help="look-ups a second; default: %(default)s")
    sizes = (100_000, 10_000_000)
    add("--sizes", type=int, nargs=2, default=sizes, help="of growth; default: %(default)s")
    names = f"of {', '.join(KNOWN)}, separated by commas; verifyd always takes part; default: all"
    every = ",".join(KNOWN)
    add("--contestants", metavar="NAMES", type=lambda t: t.split(","), default=every, help=names)
    add("--before", metavar="COMMIT", default="", help="also measure verifyd at this commit")
    add("--python", default="", help="interpreter of verifyd; default: the one that runs this")
    add("--directory", type=Path, help="where to work; default: a temporary one")
    add("--json", metavar="FILE", type=Path, help="write all figures")
    add("--svg", metavar="FILE", type=Path, help="draw the look-ups per second, if measured")
    filled = "fill chart and table into the blocks of this page; needs --svg"
    add("--page", metavar="FILE", type=Path, action="append", default=[], help=filled)
    add("--read", metavar="FILE", type=Path, help="measure nothing; read figures of --json")
    args = parser.parse_args()
    for given, known in ((args.parts, PARTS), (args.contestants, KNOWN)):
        if unknown := set(given) - known.keys():
            parser.error(f"no such name: {', '.join(sorted(unknown))}")
    if args.page and not args.svg:
        parser.error("--page needs --svg")
    return args


def _options(args: argparse.Namespace) -> Options:
    same = ("seconds", "rounds", "processes", "connections", "rate")
    given = {name: getattr(args, name) for name in same}
    given |= {"interpreter": args.python, "before": args.before}
    return Options(vehicles=args.rows, sizes=tuple(args.sizes), **given)


def _measure(results: Results, args: argparse.Namespace) -> None:
    """Build a register, and measure all parts that are wanted."""
    options, wanted = results.options, args.parts or USUAL
    with TemporaryDirectory(prefix="verifyd-peers-", dir=args.directory) as temporary:
        directory = Path(temporary)
        print(f"Building a register of {options.vehicles:,} vehicles ...", flush=True)
        data = build(directory / "data", options.vehicles)
        if parts := [part for part in COMPARED if part in wanted]:
            names = [name for name in KNOWN if name == "verifyd" or name in args.contestants]
            compare(results, directory, data, names, parts)
        for part, measure in ALONE.items():
            if part in wanted:
                print(f"{PARTS[part]} ...", flush=True)
                results.figures[part] = measure(directory, data, options)


def as_json(results: Results) -> bytes:
    """Return all figures, their medians and the verdicts."""
    document = msgspec.to_builtins(results) | {
        "medians": {
            part: {
                subject: {name: results.value(part, subject, name) for name in results.names(part)}
                for subject in results.subjects(part)
            }
            for part in results.figures
        },
        "targets": [each._asdict() for each in verdicts(results)],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


if __name__ == "__main__":
    main()
