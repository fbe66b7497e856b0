"""Writes results as tables for a terminal and for a page."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.bench.peers.contestants import KNOWN
from tests.bench.peers.results import Results
from tests.bench.peers.targets import BULK, verdicts

PARTS = {
    "lookup": "Single look-ups",
    "compliance": "Compliance checks",
    "bulk": f"Bulks of {BULK:,} vehicles",
    "rate": "Single look-ups at a fixed rate",
    "memory": "Memory of master and workers, after all three operations",
    "start": "From the start to the first answer",
    "load": "Single look-ups at a fixed rate, idle and during a load",
    "growth": "Median look-up of registers of two sizes, on one connection",
}
"""The parts of the benchmark, in their order, with their titles."""
_HEADERS = {
    "answers_per_second": "answers/s",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "cpu_us": "CPU us",
    "memory_mb": "PSS MB",
    "first_answer_s": "seconds",
}
_DIGITS = {"answers_per_second": 0, "cpu_us": 0, "memory_mb": 0}
_BLOCK = re.compile(r"(?s)(?P<begin><!-- bench-peers: (?P<name>\w+) -->\n).*?(?P<end><!-- end -->)")
Row = Sequence[str]


def text_report(results: Results) -> str:
    """Return everything that was measured, for a terminal."""
    options = results.options
    lines = [
        str(results.machine),
        f"{options.vehicles:,} vehicles, {options.processes} processes, {options.connections} "
        f"connections, fixed rate {options.rate}/s; medians of {options.rounds} rounds of "
        f"{options.seconds} s",
        "",
    ]
    for part, title in PARTS.items():
        if part in results.figures:
            lines += [title, *_aligned(part_rows(results, part)), ""]
    lines += [f"Left out: {title_of(name)}: {why}" for name, why in results.left_out.items()]
    lines += ["Targets", *_aligned(target_rows(results))]
    return "\n".join(lines)


def part_rows(results: Results, part: str) -> list[Row]:
    """Return a header, and a row with the medians of each subject."""
    names = results.names(part)
    rows: list[Row] = [["", *(_HEADERS[name] for name in names)]]
    for subject in results.subjects(part):
        values = (results.value(part, subject, name) for name in names)
        cells = (_number(value, name) for value, name in zip(values, names, strict=True))
        rows.append([title_of(subject), *cells])
    return rows


def target_rows(results: Results) -> list[Row]:
    """Return a header, and a row for each target."""
    return [["", "target", "measured", ""], *verdicts(results)]


def title_of(subject: str) -> str:
    """Return a subject as readers see it: a contestant, a number of vehicles, or its own name."""
    if subject in KNOWN:
        return KNOWN[subject].title
    return f"{int(subject):,} vehicles" if subject.isdecimal() else subject


def _number(value: float | None, name: str) -> str:
    return "" if value is None else f"{value:,.{_DIGITS.get(name, 2)}f}"


def _aligned(rows: Sequence[Row]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = (cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True))
        lines.append("  ".join(["", first.ljust(widths[0]), *cells]).rstrip())
    return lines


def table(results: Results) -> str:
    """Return a table of all contestants in Markdown, and below it how and where it was measured."""
    options = results.options
    header = ["", "look-ups/s", "p50", "p99", "CPU per look-up", "vehicles/s in bulk", "memory"]
    rows: list[Row] = [header, ["---"] * len(header)]
    for subject in results.subjects("lookup"):
        bulks = results.value("bulk", subject, "answers_per_second")
        cells = [
            _with_unit(results, subject, "answers_per_second", ""),
            _with_unit(results, subject, "p50_ms", " ms"),
            _with_unit(results, subject, "p99_ms", " ms"),
            _with_unit(results, subject, "cpu_us", " µs"),
            "" if bulks is None else f"{bulks * BULK:,.0f}",
            _with_unit(results, subject, "memory_mb", " MB"),
        ]
        title = title_of(subject)
        rows.append([f"**{title}**" if title.startswith("verifyd") else title, *cells])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    how = (
        f"{options.vehicles:,} vehicles, {options.processes} processes each, {options.connections} "
        f"connections, clients on the same machine, medians of {options.rounds} rounds of "
        f"{options.seconds} s. {results.machine}."
    )
    return "\n".join([*lines, "", how, ""])


def _with_unit(results: Results, subject: str, name: str, unit: str) -> str:
    value = results.value("lookup", subject, name)
    return "" if value is None else f"{_number(value, name)}{unit}"


def fill(page: Path, blocks: Mapping[str, str]) -> None:
    """Replace the text of the blocks that a page has.

    A block stands between `<!-- bench-peers: NAME -->` and `<!-- end -->`. Raises ValueError if
    the page has none.
    """
    before = page.read_text(encoding="utf-8")
    after, count = _BLOCK.subn(
        lambda found: f"{found['begin']}{blocks[found['name']]}{found['end']}", before
    )
    if not count:
        raise ValueError(f"{page} has no block <!-- bench-peers: {' or '.join(blocks)} -->")
    page.write_text(after, encoding="utf-8")
