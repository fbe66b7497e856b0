"""The report of the trail counts look-ups, and names what is unusual and what is wrong (D118)."""

import json
import re
from html.parser import HTMLParser

import msgspec
import pytest

from app.audit import report as tallies
from app.audit.prune import AMOUNT, prune
from app.audit.record import Criteria, Plate, Record, invalid_plate, row_of, time_of
from app.audit.report import Frequent, Refusal, Tallies, Tally, Users, render, report
from app.audit.seal import seal
from app.audit.search import TimeSpan
from app.audit.view import views_of
from tests.rows import each_row
from tests.unit.audit_trails import Clock, look_up, opened

HOSTILE = '<script>alert("x")</script>'


@pytest.fixture
def hours(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def directory(tmp_path, hours):
    """Five days of look-ups; on the last one a user asks much more than usual."""
    path = tmp_path / "audit"
    with opened(path) as trail:
        for day in range(5):
            for number in range(60 if day == 4 else 4):
                trail.append(look_up(f"D{day}N{number % 7}", user="ann", reason="claim"))
            trail.append(look_up("EVERY", account="other", user=HOSTILE, reason=HOSTILE))
            hours.pass_hours(24)
            seal(path, current=False)
        bulk = [Plate("A1", found=True), Plate("Z9", found=False), invalid_plate(HOSTILE)]
        period = {"first_day": "2026-12-04", "last_day": "2026-12-07"}
        trail.append(look_up(plates=bulk, operation="bulk_compliance", **period))
        trail.append(
            Record(time=time_of(hours.now_ns), operation="search", criteria=Criteria("EVERY"))
        )
        trail.append(look_up("D4N0", operation="sweep"))
    seal(path, current=False)
    return path


def test_look_ups_are_counted(directory):
    """By account, reason, operation and day; searches of the trail and sweeps are no look-ups."""
    done = report(views_of([directory]), TimeSpan())
    assert (done.look_ups, done.plates, done.not_found, done.invalid) == (82, 84, 1, 1)
    assert done.of_periods == 1
    assert b"Look-ups about a period: 1." in render(done)
    assert done.by_account == [Tally("acme", 77, 79), Tally("other", 5, 5)]
    assert done.by_reason == [Tally("claim", 76, 76), Tally(HOSTILE, 5, 5), Tally("(none)", 1, 3)]
    assert [(t.name, t.look_ups) for t in done.by_operation] == [
        ("insurance", 81),
        ("bulk_compliance", 1),
        ("search", 1),
        ("sweep", 1),
    ]
    assert [t.look_ups for t in done.by_day] == [5, 5, 5, 5, 61, 1]
    assert [(each.plate, each.times) for each in done.top_plates][:2] == [("D4N0", 9), ("D4N1", 9)]


def test_verdicts_that_are_not_known_are_counted(directory):
    """Those of a day and of a period, once for a plate; a check alone is no verdict (D198)."""
    assert b"Answers that are" not in render(report(views_of([directory]), TimeSpan()))
    unknown = [
        ("insured", "insuranceValid", "compliant"),
        ("validThroughout",),
        ("motValid", "compliant"),
        ("noOutstandingFines",),
        (),
    ]
    with opened(directory) as trail:
        plates = [Plate("A1", True, False, False, each) for each in unknown]
        trail.append(look_up(plates=plates, operation="bulk_compliance", rule=2))
    done = report(views_of([directory]), TimeSpan())
    assert done.unknown == 3
    assert b"Answers that are not known: 3." in render(done)
    (period,) = (each for each in plates if each.unknown == ("validThroughout",))
    assert row_of(look_up(plates=[period])).answer == "not known if insured, not known if compliant"


def test_people_of_the_operator_are_counted(directory):
    """In the console and on the command line; names that differ in case are one person."""
    with opened(directory) as trail:
        for user, plates in (("ann", 1), ("Ann", 2), ("ben", 4)):
            asked = [Plate("A1")] * plates
            trail.append(look_up(operation="console", account=None, user=user, plates=asked))
        for who in ({"login": "root", "sudo_user": "ben"}, {"login": "cron"}, {}):
            trail.append(look_up(account=None, operation="lookup", **who))
        trail.append(look_up(account=None, operation="search", user="ann"))
    done = report(views_of([directory]), TimeSpan())
    tallies = [Tally("ann", 2, 3), Tally("ben", 2, 5), Tally("cron", 1, 1), Tally("(none)", 1, 1)]
    assert done.by_person == tallies
    assert [each for each in done.by_account if each.name in ("console", "(none)")] == [
        Tally("console", 3, 7),
        Tally("(none)", 3, 3),
    ]
    assert b"<td>ben</td>" in render(done)


def test_a_period_is_respected(directory):
    """Only its records are counted, but the whole trail is verified."""
    whole = report(views_of([directory]), TimeSpan())
    day = whole.by_day[1].name
    done = report(views_of([directory]), TimeSpan(f"{day}T00", f"{day}T24"))
    assert done.look_ups == 5
    assert done.trails == whole.trails


def test_it_ends_with_the_latest_record(directory, hours):
    """A clock that was three years ahead is right again, and its records are counted."""
    before = report(views_of([directory]), TimeSpan())
    assert before.until == before.generated_at
    hours.pass_hours(24 * 1_100)
    with opened(directory) as trail:
        record = look_up("AHEAD")
        trail.append(record)
    hours.pass_hours(-24 * 1_100)
    after = report(views_of([directory]), TimeSpan())
    assert (after.look_ups, after.until) == (before.look_ups + 1, record.time)
    limited = report(views_of([directory]), TimeSpan(until=before.until))
    assert (limited.look_ups, limited.until) == (before.look_ups, before.until)


def test_a_user_far_above_the_usual_is_named(directory):
    """With the day, and what is usual."""
    (peak,) = report(views_of([directory]), TimeSpan()).users_above_usual
    assert (peak.account, peak.user, peak.plates, peak.usual) == ("acme", "ann", 60, 4)


def test_a_bulk_counts_as_its_plates():
    """Whoever asks for a thousand vehicles at once is seen."""
    users = Users()
    for day in range(1, 6):
        plates = [Plate(f"P{number}") for number in range(1_000 if day == 5 else 2)]
        record = Record(time=f"2026-11-{day:02}T", operation="bulk_insurance", user="ann")
        record.plates = plates
        users.add(record)
    (peak,) = users.peaks()
    assert (peak.day, peak.plates, peak.usual) == ("2026-11-05", 1_000, 2)


@each_row("days", [[100], [100, 1, 1], [19, 1, 1, 1], [25, 5, 5, 5], [50, 50, 50, 50]])
def test_what_is_not_unusual_is_not_named(days):
    """A new user, a small number, or five times the usual is no peak."""
    users = Users()
    for day, look_ups in enumerate(days, 1):
        for _ in range(look_ups):
            record = look_up(user="ann")
            record.time = f"2026-11-{day:02}T"
            users.add(record)
    assert users.peaks() == []


def test_the_trail_is_verified(directory, hours):
    """Retention, size and faults are those of each directory."""
    prune(directory, "3d", accepted=[AMOUNT])
    (held,) = report(views_of([directory]), TimeSpan()).trails
    assert (held.faults, held.removed_segments > 0) == ([], True)
    assert held.removed_before > ""
    sealed = sorted(directory.glob("*-*.ndjson"))[-2]
    sealed.unlink()
    (held,) = report(views_of([directory]), TimeSpan()).trails
    assert [fault.kind for fault in held.faults] == ["removed"]


def test_the_page_is_self_contained_and_escapes_what_clients_chose(directory):
    """It loads nothing, runs nothing, and shows texts as texts."""
    page = render(report(views_of([directory]), TimeSpan())).decode()
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"<(script|img|link|iframe)|https?://|\son\w+=", page)
    parser = _Tags()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    assert parser.tables >= 7
    assert "nothing that was sealed was changed" in page


def test_the_page_names_faults(directory):
    """A trail that does not verify is seen at once."""
    path = min(directory.glob("*-*.ndjson"))
    path.unlink()
    page = render(report(views_of([directory]), TimeSpan())).decode()
    assert "does not verify" in page
    assert f"segment {path.name.removesuffix('.ndjson')} was removed" in page


def test_what_is_rare_is_forgotten_and_what_is_frequent_is_kept():
    """Memory does not grow with the number of plates."""
    frequent = Frequent(10)
    for number in range(1_000):
        frequent.add("often")
        frequent.add(f"P{number}")
    assert frequent.top(1) == [("often", 1_000)]
    assert not frequent.is_exact
    assert len(frequent.top(100)) <= 21


def test_plates_are_counted_again_if_some_were_forgotten(directory, monkeypatch):
    """What a report shows is exact."""
    exact = report(views_of([directory]), TimeSpan()).top_plates
    monkeypatch.setattr(tallies, "_PLATES_MAX", 12)
    counted = report(views_of([directory]), TimeSpan()).top_plates
    by_plate = {each.plate: each.times for each in exact}
    assert all(by_plate.get(each.plate, each.times) == each.times for each in counted)
    assert counted[0].times == 9


@pytest.mark.parametrize("plates_max", [tallies._PLATES_MAX, 1])
def test_plates_that_were_only_shown_were_not_requested(tmp_path, hours, monkeypatch, plates_max):
    """They count among the plates, of which usage has as many vehicles (D169, D175)."""
    monkeypatch.setattr(tallies, "_PLATES_MAX", plates_max)
    shown = [Plate("A1", found=True, suggested=True)] * 2
    with opened(tmp_path / "audit") as trail:
        trail.append(look_up(plates=[Plate("AI", found=False), *shown]))
        trail.append(look_up("A1"))
        trail.append(look_up("A1"))
    done = report(views_of([tmp_path / "audit"]), TimeSpan())
    assert (done.look_ups, done.plates, done.not_found) == (3, 5, 1)
    assert [(each.plate, each.times) for each in done.top_plates][:1] == [("A1", 2)]


def test_many_values_share_a_line(monkeypatch):
    """A client that sends a new reason each time does not fill memory."""
    monkeypatch.setattr(tallies, "_VALUES_MAX", 3)
    counted = Tallies()
    for number in range(10):
        counted.add(f"R{number}", 1)
    assert counted.most()[0] == Tally("(others)", 7, 7)
    monkeypatch.setattr(tallies, "_USERS_MAX", 2)
    users = Users()
    for number in range(3):
        users.add(look_up(user=f"U{number}"))
    assert not users.are_all


class _Tags(HTMLParser):
    """Counts tables, and finds tags that are not closed."""

    def __init__(self):
        super().__init__()
        self.open: list[str] = []
        self.tables = 0

    def handle_starttag(self, tag, attrs):
        if tag != "meta":
            self.open.append(tag)
        self.tables += tag == "table"

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_refusals_are_those_of_the_usage(directory):
    """Without the database the page says that they are not known."""
    refusals = [Refusal(HOSTILE, 3, 2, 1_000)]
    page = render(report(views_of([directory]), TimeSpan(), refusals)).decode()
    assert "&lt;script&gt;" in page.partition("Refusals")[2]
    assert ">1,000</td>" in page.partition("Refusals")[2]
    assert "not known" not in page
    page = render(report(views_of([directory]), TimeSpan(), [])).decode()
    assert "none</td>" in page.partition("Refusals")[2]
    assert "not known here" in render(report(views_of([directory]), TimeSpan())).decode()


def test_json_has_names(directory):
    """Each member of the report has a name."""
    document = json.loads(
        msgspec.json.encode(report(views_of([directory]), TimeSpan(until="2100")))
    )
    assert document["to"] == document["generated_at"]
    assert document["by_account"][0] == {"name": "acme", "look_ups": 77, "plates": 79}
    assert document["top_plates"][0] == {"plate": "D4N0", "times": 9}
    assert document["trails"][0]["faults"] == []
