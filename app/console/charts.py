"""Charts as SVG, drawn on the server. They have classes instead of colours, for both schemes."""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

_WIDTH, _HEIGHT = 720, 160
_BASE = 136
_TOP = 14
_GAP_SHARE = 0.22
_LABELS_MAX = 8


class Series(NamedTuple):
    """One kind of value in a chart."""

    name: str
    tone: str
    """`good`, `warn`, `bad` or `plain`."""
    values: Sequence[int]
    """One for each column."""


def columns_chart(title: str, labels: Sequence[str], series: Sequence[Series]) -> Markup:
    """Return a chart with a column for each label, in which the series are stacked.

    Hovering over a column shows its values. For readers of the page without a picture, `title`
    should be followed by the same numbers as a table.
    """
    totals = [sum(values) for values in zip(*(each.values for each in series), strict=True)]
    most = _round_up(max(totals, default=0))
    step = _WIDTH / max(1, len(labels))
    parts = [_scale(most)]
    for place, label in enumerate(labels):
        values = [(each, each.values[place]) for each in series]
        parts.append(_column(place * step, step, label, values, most))
    every = -(-len(labels) // _LABELS_MAX) or 1
    for turn, place in enumerate(range(len(labels) - 1, -1, -every)):
        # A narrow screen has room for every second label only.
        kind = "label minor" if turn % 2 else "label"
        middle = (place + 0.5) * step
        parts.append(
            Markup('<text class="{}" x="{:.1f}" y="{}" text-anchor="middle">{}</text>').format(
                kind, middle, _HEIGHT - 6, labels[place]
            )
        )
    return Markup(
        '<svg class="chart" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
    ).format(_WIDTH, _HEIGHT, title, Markup("").join(parts))


def _scale(most: int) -> Markup:
    """Return the lines for nothing and for the largest value, with its number."""
    return Markup(
        '<line class="base" x1="0" x2="{w}" y1="{b}" y2="{b}"/>'
        '<line class="grid" x1="0" x2="{w}" y1="{t}" y2="{t}"/>'
        '<text class="label" x="0" y="{y}">{most}</text>'
    ).format(w=_WIDTH, b=_BASE, t=_TOP, y=_TOP - 4, most=f"{most:,}")


def _column(
    left: float, step: float, label: str, values: Sequence[tuple[Series, int]], most: int
) -> Markup:
    told = ", ".join(f"{value:,} {each.name}" for each, value in values)
    bars, bottom = [], float(_BASE)
    for each, value in values:
        height = value / most * (_BASE - _TOP)
        bottom -= height
        if value:
            bars.append(
                Markup(
                    '<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>'
                ).format(
                    each.tone, left + step * _GAP_SHARE / 2, bottom, step * (1 - _GAP_SHARE), height
                )
            )
    # The whole height answers the pointer, also where a column is low.
    area = Markup('<rect class="area" x="{:.1f}" y="0" width="{:.1f}" height="{}"/>').format(
        left, step, _BASE
    )
    title = Markup("<title>{}: {}</title>").format(label, told)
    return Markup("<g>{}{}{}</g>").format(title, area, Markup("").join(bars))


def _round_up(value: int) -> int:
    """Return the next number with one digit and zeros, at least 1."""
    unit: int = 10 ** (len(str(value)) - 1)
    return max(1, -(-value // unit) * unit)
