"""Draws the look-ups per second of all contestants as an SVG."""

import pygal
from pygal.style import Style

from tests.bench.peers.report import title_of
from tests.bench.peers.results import Results

_OURS, _OTHERS = "#1f6feb", "#9aa4af"
_STYLE = Style(
    background="white",
    plot_background="white",
    font_family="sans-serif",
    label_font_size=15,
    major_label_font_size=15,
    title_font_size=20,
    value_font_size=15,
    value_colors=("#24292f",) * 16,
)


def chart(results: Results) -> bytes:
    """Return an SVG with a bar for each contestant, the fastest first."""
    rates = {
        subject: results.value("lookup", subject, "answers_per_second") or 0.0
        for subject in results.subjects("lookup")
    }
    slowest_first = sorted(rates, key=lambda subject: rates[subject])
    # Without scripts and tooltips: pages show it as a picture.
    drawing = pygal.HorizontalBar(
        style=_STYLE,
        js=[],
        show_legend=False,
        print_values=True,
        print_values_position="top",
        value_formatter="{:,.0f}".format,
        title="Look-ups per second",
        width=960,
        height=90 + 44 * len(rates),
        show_x_guides=True,
        range=(0, max(rates.values(), default=0) * 1.15 or 1),
    )
    drawing.x_labels = [title_of(subject) for subject in slowest_first]
    drawing.add(
        "look-ups/s",
        [
            {
                "value": rates[subject],
                "color": _OURS if title_of(subject).startswith("verifyd") else _OTHERS,
            }
            for subject in slowest_first
        ],
    )
    rendered: bytes = drawing.render()
    return rendered
