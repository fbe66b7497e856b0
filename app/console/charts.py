"""Charts as SVG, drawn on the server. The style sheet gives their classes colours."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, tzinfo
from typing import NamedTuple

from markupsafe import Markup

from app.accounts.usage.report import By, Period, Used, usage_of_hours
from app.accounts.usage.store import CLASSES, HOUR_SECONDS, first_hour
from app.storage.engine import Engine

_TOP = 14
_BELOW = 24
"""The height of the labels."""
_GAP_SHARE = 0.22


class _Frame(NamedTuple):
    """The measures of a chart."""

    width: int
    height: int
    labels_max: int
    style: str
    """Its classes."""

    @property
    def base(self) -> int:
        """Where the columns stand."""
        return self.height - _BELOW


_WIDE = _Frame(720, 160, 8, "chart wide")
# For narrow pages, where the letters of a wide chart would be too small.
_NARROW = _Frame(300, 150, 4, "chart narrow")
_SMALL = _Frame(240, 110, 3, "chart small")


class Series(NamedTuple):
    """One kind of value in a chart."""

    name: str
    tone: str
    """`good`, `warn`, `bad` or `plain`."""
    values: Sequence[int]
    """One for each column."""


def filled_columns(series: Sequence[Series]) -> list[int]:
    """Return the numbers of the columns that are not empty, from 0.

    A chart of one column, or of none, tells less than a sentence.
    """
    columns = zip(*(each.values for each in series), strict=True)
    return [number for number, values in enumerate(columns) if any(values)]


def columns_chart(
    title: str, labels: Sequence[str], series: Sequence[Series], *, is_small: bool = False
) -> Markup:
    """Return a chart with a column for each label, in which the series are stacked.

    A chart that is not small is drawn twice, for wide and narrow pages. The style sheet shows one
    of both.

    Hovering over a column shows its values. A table below should have the same numbers for people
    who do not see the chart.

    Args:
        is_small: whether the chart has only a third of the page.
    """
    if is_small:
        return _drawn(_SMALL, title, labels, series)
    return Markup("").join(_drawn(each, title, labels, series) for each in (_WIDE, _NARROW))


def _drawn(frame: _Frame, title: str, labels: Sequence[str], series: Sequence[Series]) -> Markup:
    totals = [sum(values) for values in zip(*(each.values for each in series), strict=True)]
    most = _round_up(max(totals, default=0))
    step = frame.width / max(1, len(labels))
    parts = [_scale(frame, most)]
    for place, label in enumerate(labels):
        values = [(each, each.values[place]) for each in series]
        parts.append(_column(frame, place * step, step, label, values, most))
    every = -(-len(labels) // frame.labels_max) or 1
    for place in range(len(labels) - 1, -1, -every):
        is_last = place == len(labels) - 1
        left, anchor = (frame.width, "end") if is_last else ((place + 0.5) * step, "middle")
        parts.append(
            Markup('<text class="label" x="{:.1f}" y="{}" text-anchor="{}">{}</text>').format(
                left, frame.height - 6, anchor, labels[place]
            )
        )
    return Markup('<svg class="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>').format(
        frame.style, frame.width, frame.height, title, Markup("").join(parts)
    )


def _scale(frame: _Frame, most: int) -> Markup:
    """Return the lines for nothing and for the largest value, with its number."""
    return Markup(
        '<line class="base" x1="0" x2="{w}" y1="{b}" y2="{b}"/>'
        '<line class="grid" x1="0" x2="{w}" y1="{t}" y2="{t}"/>'
        '<text class="label" x="0" y="{y}">{most}</text>'
    ).format(w=frame.width, b=frame.base, t=_TOP, y=_TOP - 4, most=f"{most:,}")


def _column(
    frame: _Frame,
    left: float,
    step: float,
    label: str,
    values: Sequence[tuple[Series, int]],
    most: int,
) -> Markup:
    values_text = ", ".join(f"{value:,} {each.name}" for each, value in values)
    bars, bottom = [], float(frame.base)
    for each, value in values:
        height = value / most * (frame.base - _TOP)
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
        left, step, frame.base
    )
    title = Markup("<title>{}: {}</title>").format(label, values_text)
    return Markup("<g>{}{}{}</g>").format(title, area, Markup("").join(bars))


def _round_up(value: int) -> int:
    """Return the next round number, at least 1, so that columns fill most of the height."""
    unit: int = 10 ** (len(str(value)) - 1)
    step = max(1, unit // 5 if value < 2 * unit else unit // 2 if value < 5 * unit else unit)
    return max(1, -(-value // step) * step)


# Charts of usage: answers by class, per day, month or hour.

HOURS = 24
_DAYS_MAX = 93
"""With more days the columns are months."""
CLASS_NAMES = {name: name for name in CLASSES} | {"2xx": "successful"}
"""What pages call the classes of answers."""
_TONES = dict(zip(CLASSES, ("good", "plain", "warn", "bad"), strict=True))


class ChartColumn(NamedTuple):
    """The answers in some time."""

    label: str
    by_class: Sequence[int]
    """The answers of each of CLASSES."""
    began_at: int = 0
    """When an hour began, in Unix seconds."""


class UsageChart(NamedTuple):
    """What a chart shows, in its order."""

    columns: Sequence[ChartColumn]
    unit: str
    """`hour`, `day` or `month`."""

    @property
    def labels(self) -> list[str]:
        """The labels of the columns."""
        return [column.label for column in self.columns]

    def series(self, *classes: str) -> list[Series]:
        """Return the answers of some classes, of all by default."""
        return [
            Series(
                CLASS_NAMES[name], _TONES[name], [column.by_class[place] for column in self.columns]
            )
            for place, name in enumerate(CLASSES)
            if name in classes or not classes
        ]

    def total(self, *classes: str) -> int:
        """Return the sum of the answers of some classes, of all by default."""
        return sum(sum(each.values) for each in self.series(*classes))


def chart_of_days(used: Iterable[Used], asked: Period) -> UsageChart:
    """Return a chart of usage that is grouped by days, or by days and accounts."""
    is_long = asked.days > _DAYS_MAX
    counts = {_day_label(day, is_long=is_long): [0] * len(CLASSES) for day in asked.each_day()}
    for each in used:
        label = _day_label(date.fromisoformat(str(each.day)), is_long=is_long)
        counts[label] = [sum(both) for both in zip(counts[label], each.by_class, strict=True)]
    columns = [ChartColumn(label, by_class) for label, by_class in counts.items()]
    return UsageChart(columns, "month" if is_long else "day")


def chart_of_hours(engine: Engine, zone: tzinfo) -> UsageChart:
    """Return a chart of the usage of all accounts in the last 24 hours, the current one included.

    PERF: 3 ms with 100 keys in use, 70 ms with 2,000.
    """
    used = usage_of_hours(engine, (By.HOUR,), hours=HOURS)
    counts = {each.hour: each.by_class for each in used}
    first, nothing = first_hour(HOURS), (0,) * len(CLASSES)
    columns = [
        ChartColumn(f"{datetime.fromtimestamp(hour, zone):%H:%M}", counts.get(hour, nothing), hour)
        for hour in range(first, first + HOURS * HOUR_SECONDS, HOUR_SECONDS)
    ]
    return UsageChart(columns, "hour")


def _day_label(day: date, *, is_long: bool) -> str:
    return f"{day:%b} {day.year}" if is_long else f"{day.day} {day:%b}"
