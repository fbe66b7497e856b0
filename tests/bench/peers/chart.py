"""Draws the look-ups per second of all contestants as an SVG."""

from typing import Any

import leather

from tests.bench.peers.report import title_of
from tests.bench.peers.results import Results

_OURS, _OTHERS = "#1f6feb", "#9aa4af"
_WIDTH = 960
_MARGINS_HEIGHT, _BAR_HEIGHT = 140, 44


def chart(results: Results) -> str:
    """Return an SVG with a bar for each contestant, the fastest first, and ours in blue.

    An earlier commit is in the table only.

    Raises ValueError if no look-ups were measured.
    """
    if not results.subjects("lookup"):
        raise ValueError("no look-ups were measured")
    rates = {
        subject: results.value("lookup", subject, "answers_per_second") or 0.0
        for subject in results.subjects("lookup")
        if not subject.startswith("before")
    }
    fastest_first = sorted(rates, key=lambda subject: -rates[subject])
    bars = [(rates[each], f"{title_of(each)}: {rates[each]:,.0f}") for each in fastest_first]
    drawing = leather.Chart("Look-ups per second (verifyd in blue)")
    drawing.add_bars(bars, fill_color=_color)
    drawn: str = drawing.to_svg(width=_WIDTH, height=_MARGINS_HEIGHT + _BAR_HEIGHT * len(bars))
    return drawn


def _color(bar: Any) -> str:
    return _OURS if bar.y.startswith("verifyd") else _OTHERS


leather.theme.background_color = "#fff"
leather.theme.title_font_family = leather.theme.label_font_family = "sans-serif"
leather.theme.label_color = "#24292f"
