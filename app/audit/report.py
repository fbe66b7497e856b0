"""Summarises a period of the trail, in memory that does not grow with the trail."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, timedelta, tzinfo
from itertools import chain
from pathlib import Path
from statistics import median

import jinja2
import msgspec

from app import clock
from app.accounts.usage.counts import CONSOLE
from app.accounts.usage.report import By, usage_of_days
from app.audit.chain import kept_seals_of, readable_lines
from app.audit.comparison import NOT_READ, Comparison, ComparisonResult, local_day
from app.audit.export import records_in
from app.audit.faults import Fault
from app.audit.record import Record, time_of
from app.audit.search import Query, TimeSpan, search
from app.audit.segments import list_segments
from app.audit.verify import KEEP, verify
from app.audit.view import View
from app.people.directory import person_of
from app.storage.engine import Engine
from app.text import counted
from app.version import VERSION

OTHER = "(others)"
"""Stands for all further values, once there are too many different ones."""
_VALUES_MAX = 10_000
_PLATES_MAX = 200_000
_USERS_MAX = 50_000
_FACTOR = 5
"""How many times its usual plates of a day a user must exceed to be reported."""
_PLATES_MIN = 20
"""Fewer plates of a day are never reported."""
_DAYS_MIN = 3
"""On how many other days a user must have been seen."""


class Tally(msgspec.Struct, order=True):
    """How often a value occurred."""

    name: str
    look_ups: int
    plates: int


class Peak(msgspec.Struct, order=True):
    """A day on which a user asked for far more plates than usual."""

    account: str
    user: str
    day: str
    plates: int
    usual: float
    """The median of the user's other days."""


class Tallies:
    """Look-ups and plates by one member of the records."""

    def __init__(self) -> None:
        self._look_ups: Counter[str] = Counter()
        self._plates: Counter[str] = Counter()

    def add(self, name: str, plates: int) -> None:
        """Count a look-up."""
        if name not in self._look_ups and len(self._look_ups) >= _VALUES_MAX:
            name = OTHER
        self._look_ups[name] += 1
        self._plates[name] += plates

    def most(self) -> list[Tally]:
        """Return all values, those with most look-ups first."""
        return [Tally(name, n, self._plates[name]) for name, n in self._look_ups.most_common()]


class Frequent:
    """Counts many different values, and forgets those that are rare.

    What is frequent is never forgotten, but its count may be too low once anything was forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._counts: Counter[str] = Counter()
        self.is_exact = True

    def add(self, value: str) -> None:
        self._counts[value] += 1
        if len(self._counts) > 2 * self._most:
            self._counts = Counter(dict(self._counts.most_common(self._most)))
            self.is_exact = False

    def top(self, number: int) -> list[tuple[str, int]]:
        return self._counts.most_common(number)


class Users:
    """The plates that each user asked for by day: a bulk has thousands."""

    def __init__(self) -> None:
        self._days: dict[tuple[str, str], Counter[str]] = {}
        self.are_all = True
        """Whether there was room for all users."""

    def add(self, record: Record) -> None:
        """Count a look-up, if the client named its user."""
        if record.user is None:
            return
        who = (record.account or "", record.user)
        if who not in self._days:
            if len(self._days) >= _USERS_MAX:
                self.are_all = False
                return
            self._days[who] = Counter()
        self._days[who][record.time[: len("YYYY-MM-DD")]] += len(record.plates)

    def peaks(self) -> list[Peak]:
        """Return the days that are far above a user's usual, the largest first."""
        found = [peak for who, days in self._days.items() for peak in _peaks(who, days)]
        return sorted(found, key=lambda peak: (-peak.plates, peak))


def _peaks(who: tuple[str, str], days: Counter[str]) -> Iterator[Peak]:
    if len(days) <= _DAYS_MIN:
        return
    for day, plates in days.items():
        if plates < _PLATES_MIN:
            continue
        usual = median(count for other, count in days.items() if other != day)
        if plates > _FACTOR * usual:
            yield Peak(*who, day, plates, usual)


_NO_LOOK_UPS = ("search", "export", "report", "prune", "acknowledge", "gap", "sweep")
"""Operations that look into the trail, keep it up, or report events that nobody asked for."""
REPORTED_DAYS = 30
_PLATES_SHOWN = 20
_PEAKS_SHOWN = 50
_NONE = "(none)"


class Requested(msgspec.Struct):
    """How often a plate was asked for."""

    plate: str
    times: int


class Refusal(msgspec.Struct):
    """How many look-ups of an account were not answered. The trail does not have them."""

    account: str
    refused: int
    """4xx without 429: unknown plates, too."""
    limited: int
    """429."""
    failed: int
    """5xx."""


class TrailContents(msgspec.Struct):
    """What the trail of one host holds, and whether it verifies."""

    directory: str
    oldest: str
    """The earliest time of a sealed record; empty if there is none."""
    removed_before: str
    """Records older than this time were removed by age; empty if none were."""
    removed_segments: int
    segments: int
    records: int
    unsealed_records: int
    size_bytes: int
    digest: str
    faults: list[Fault]
    notes: list[Fault] = []
    """What is in order, but worth knowing, as that the trail was switched off for a while."""


class Report(msgspec.Struct):
    """A report. Members of the same name are those of its JSON."""

    generated_at: str
    since: str = msgspec.field(name="from")
    until: str = msgspec.field(name="to")
    look_ups: int
    plates: int
    not_found: int
    """Plates that no register mentions."""
    invalid: int
    """Texts that are no registrations."""
    by_account: list[Tally]
    """People in the console are `console`, as in usage."""
    by_reason: list[Tally]
    by_operation: list[Tally]
    by_day: list[Tally]
    top_plates: list[Requested]
    """The most requested first."""
    users_above_usual: list[Peak]
    are_all_users_compared: bool
    refusals: list[Refusal] | None
    """None if the database could not be read."""
    comparison: ComparisonResult
    """Of the vehicles of usage with the plates of records."""
    trails: list[TrailContents]
    of_periods: int = 0
    """Look-ups that asked about every day of a period."""
    by_person: list[Tally] = []
    """Look-ups in the console and on the command line."""
    unknown: int = 0
    """Plates about which a verdict is not known (D198)."""


def first_reported_day() -> str:
    """Return the day (UTC) from which a report counts, unless it is given another one."""
    return (clock.today(UTC) - timedelta(days=REPORTED_DAYS)).isoformat()


def report(
    views: Sequence[View],
    period: TimeSpan,
    refusals: list[Refusal] | None = None,
    comparison: Comparison | None = None,
    keep: str = KEEP,
) -> Report:
    """Read and verify the trails, and summarise the look-ups of a period.

    It ends now, or later with the latest record, which was made while the clock was ahead.

    Args:
        refusals: those of the period; None if they are not known.
        comparison: of the usage with the records; None if the usage is not known.
        keep: as for `verify`.

    Raises AuditError if a segment was removed meanwhile, and OSError.
    """
    counts = _Counts()
    wanted = comparison.widened(period) if comparison else period
    for _, record in chain.from_iterable(records_in(view, wanted) for view in views):
        if record is not None and period.has(record.time):
            counts.add(record)
        if record is not None and comparison is not None:
            comparison.add(record)
    now = time_of(clock.now_ns())
    return Report(
        generated_at=now,
        since=period.since,
        until=min(period.until, max(now, counts.latest)),
        look_ups=counts.look_ups,
        plates=counts.plates_asked,
        not_found=counts.not_found,
        invalid=counts.invalid,
        by_account=counts.accounts.most(),
        by_reason=counts.reasons.most(),
        by_operation=counts.operations.most(),
        by_day=sorted(counts.days.most()),
        top_plates=_top_plates(counts, views, period),
        users_above_usual=counts.users.peaks()[:_PEAKS_SHOWN],
        are_all_users_compared=counts.users.are_all,
        refusals=refusals,
        comparison=comparison.result() if comparison else NOT_READ,
        trails=[_held(view.directory, keep) for view in views],
        of_periods=counts.of_periods,
        by_person=counts.people.most(),
        unknown=counts.unknown,
    )


class _Counts:
    """What one pass over the records counts."""

    def __init__(self) -> None:
        self.look_ups = self.plates_asked = self.of_periods = 0
        self.not_found = self.invalid = self.unknown = 0
        self.accounts, self.reasons = Tallies(), Tallies()
        self.operations, self.days, self.people = Tallies(), Tallies(), Tallies()
        self.plates, self.users = Frequent(_PLATES_MAX), Users()
        self.latest = ""

    def add(self, record: Record) -> None:
        plates = len(record.plates)
        self.latest = max(self.latest, record.time)
        self.operations.add(record.operation, plates)
        if record.operation in _NO_LOOK_UPS:
            return
        self.look_ups += 1
        self.of_periods += record.first_day is not None
        self.plates_asked += plates
        account = CONSOLE if record.operation == CONSOLE else record.account
        self.accounts.add(account or _NONE, plates)
        if record.account is None:
            person = record.user or record.sudo_user or record.login
            self.people.add(person_of(person) if person else _NONE, plates)
        self.reasons.add(record.reason or _NONE, plates)
        self.days.add(record.time[: len("YYYY-MM-DD")], plates)
        self.users.add(record)
        for each in record.plates:
            self.invalid += each.invalid
            self.not_found += each.found is False
            self.unknown += each.is_unknown("insured") or each.is_unknown("compliant")
            if not each.suggested:
                self.plates.add(each.plate)


def _top_plates(counts: _Counts, views: Sequence[View], period: TimeSpan) -> list[Requested]:
    """Return the most requested plates. If there are too many plates, search for these again."""
    top = [Requested(plate, times) for plate, times in counts.plates.top(_PLATES_SHOWN)]
    if not counts.plates.is_exact:
        for each in top:
            query = Query("plate", each.plate, period)
            found = chain.from_iterable(search(view, query) for view in views)
            look_ups = (record for record in found if record.operation not in _NO_LOOK_UPS)
            each.times = sum(not its.suggested for record in look_ups for its in record.plates)
    return sorted(top, key=lambda each: -each.times)


def _held(directory: Path, keep: str) -> TrailContents:
    verdict = verify(directory, keep=keep)
    seals = kept_seals_of(readable_lines(directory)).values()
    return TrailContents(
        directory=str(directory),
        oldest=min((seal.first for seal in seals if seal.first), default=""),
        removed_before=verdict.pruned_before,
        removed_segments=verdict.pruned,
        segments=verdict.segments,
        records=verdict.records,
        unsealed_records=verdict.unsealed_records,
        size_bytes=sum(
            (directory / segment.file_name).stat().st_size for segment in list_segments(directory)
        ),
        digest=verdict.digest,
        faults=verdict.faults,
        notes=verdict.notes,
    )


def render(report: Report) -> bytes:
    """Return a report as one HTML page, in UTF-8, that needs no other file."""
    return render_page("report.html", report)


def render_page(template: str, report: object, **values: object) -> bytes:
    """Return the page of a template, with the report and further values."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("app.audit"),
        # SEC: clients choose reasons, references and users.
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"counted": counted, "number": "{:,}".format}
    page = environment.get_template(template)
    return page.render(report=report, version=VERSION, **values).encode()


_LOOK_UPS = {"insurance", "bulk_insurance", "compliance", "bulk_compliance", CONSOLE}


def refusals_in(engine: Engine, period: TimeSpan, zone: tzinfo) -> list[Refusal]:
    """Return how many look-ups of each account were not answered on the days of a period.

    Args:
        zone: the time zone of the service, whose days the usage has.

    Raises peewee.PeeweeException if the database cannot answer.
    """
    first, last = local_day(period.since, zone), local_day(period.until, zone)
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for each in usage_of_days(engine, first, last, (By.ACCOUNT, By.OPERATION)):
        _, *not_answered = each.by_class
        if each.operation in _LOOK_UPS and any(not_answered):
            account = str(each.account)
            pairs = zip(sums[account], not_answered, strict=True)
            sums[account] = [former + more for former, more in pairs]
    return [Refusal(account, *counts) for account, counts in sorted(sums.items())]
