"""GET /v1/events (D186)."""

import re

import pytest

from app import clock
from app.watches.feed import Event, id_of
from app.watches.repository import renew_feeds
from app.watches.sweep import prune_events
from app.watches.tables import WatchEvent, WatchFeed
from tests.api.watches import EVENTS, PATH, PLATE, cancel, load_policy, put, sweep
from tests.conftest import engine_independent
from tests.enquiry import set_enquiry, set_watches_max
from tests.rows import each_row


@pytest.fixture
def alice(world):
    """A client that watches an insured vehicle."""
    set_watches_max(world.engine, "standard", 10)
    client = world.client(world.alice_key)
    load_policy(world)
    put(client, reference="CAR 1")
    return client


def happen(world, times=1):
    """Let the verdict change some times, with an event for each."""
    for _ in range(times):
        cancel(world)
        sweep(world)
        load_policy(world)
        sweep(world)


def ids(answer):
    return [each["id"] for each in answer.json["events"]]


def number_of(cursor):
    return int(cursor[-11:])


def of_release_before(cursor):
    """Return the cursor of the same event as 1.0.0 makes it."""
    return f"{cursor.partition('-')[0]}-{number_of(cursor)}"


def turn_back(world, number):
    """Let the database be the one of before the events after this number."""
    WatchEvent.delete().where(WatchEvent.number > number).execute(world.engine)
    WatchFeed.update(last_event=number).execute(world.engine)


def remove_by_age(world, *numbers):
    """Remove events that the clock gave other times than those before and after them."""
    WatchEvent.update(at=1).where(WatchEvent.number.in_(numbers)).execute(world.engine)
    prune_events(world.engine, range(2))


def test_the_id_of_an_event_never_changes():
    """Clients keep ids across upgrades; 1.0.0 takes them for a number too high to be given."""
    event = Event(42, 1_795_000_000, "mot.ending", "AB12CDE", None, "null", '{"valid":true}')
    assert id_of("3f9a1c07", event) == "3f9a1c07-944866100000000042"
    of_1_0_0 = re.compile("[0-9a-f]{8}-(?:0|[1-9][0-9]{0,17})")
    assert of_1_0_0.fullmatch(id_of("3f9a1c07", event))


class Test200:
    def test_an_event_has_what_was_told_before_and_after(self, alice, world):
        """With the reference of the watch."""
        cancel(world)
        sweep(world)
        answer = alice.get(EVENTS).json
        (event,) = answer["events"]
        assert event == {
            "id": answer["next"],
            "type": "insurance.changed",
            "time": event["time"],
            "registration": PLATE,
            "reference": "CAR 1",
            "before": {"valid": True, "reason": "valid", "lastDay": "2999-12-31"},
            "after": {"valid": False, "reason": "cancelled", "lastDay": None},
        }
        assert answer["hasMore"] is False
        assert alice.get(f"{PATH}/{PLATE}").json["checks"]["insurance"] == event["after"]

    def test_pages_follow_each_other(self, alice, world):
        """`next` continues where a page ended; the last one can be sent again and again."""
        happen(world, 2)
        found, after = [], ""
        while True:
            answer = alice.get(f"{EVENTS}?limit=3{after}")
            found += ids(answer)
            after = f"&after={answer.json['next']}"
            if not answer.json["hasMore"]:
                break
        assert list(map(number_of, found)) == [1, 2, 3, 4]
        empty = alice.get(f"{EVENTS}?{after[1:]}").json
        assert (empty["events"], empty["next"], empty["hasMore"]) == ([], found[-1], False)
        happen(world)
        assert len(ids(alice.get(f"{EVENTS}?{after[1:]}"))) == 2

    def test_the_id_of_any_event_is_a_cursor(self, alice, world):
        """Those after it are listed, the same each time."""
        happen(world, 2)
        found = ids(alice.get(EVENTS))
        for _ in range(2):
            assert ids(alice.get(f"{EVENTS}?after={found[1]}")) == found[2:]

    def test_a_cursor_of_the_release_before_is_continued(self, alice, world):
        """It is judged by its number, and exchanged for one of its event at once."""
        happen(world)
        found = ids(alice.get(EVENTS))
        first, newest = map(of_release_before, found)
        assert ids(alice.get(f"{EVENTS}?after={first}")) == found[1:]
        answer = alice.get(f"{EVENTS}?after={newest}").json
        assert (answer["events"], answer["next"]) == ([], found[1])

    def test_without_a_cursor_a_gap_is_passed_over(self, alice, world):
        """Otherwise a client that starts over would meet the same gap each time."""
        happen(world, 3)
        found = ids(alice.get(EVENTS))
        remove_by_age(world, 2, 4)
        answer = alice.get(f"{EVENTS}?limit=1").json
        assert ([each["id"] for each in answer["events"]], answer["hasMore"]) == (found[4:5], True)
        assert ids(alice.get(f"{EVENTS}?after={answer['next']}")) == found[5:]
        remove_by_age(world, 6)
        answer = alice.get(EVENTS).json
        assert (answer["events"], answer["hasMore"]) == ([], False)
        happen(world)
        assert list(map(number_of, ids(alice.get(f"{EVENTS}?after={answer['next']}")))) == [7, 8]

    def test_next_can_be_kept_before_the_first_event(self, alice, world):
        """So a client misses nothing between its first watch and the first event."""
        answer = alice.get(EVENTS).json
        assert answer["events"] == []
        happen(world)
        assert len(ids(alice.get(f"{EVENTS}?after={answer['next']}"))) == 2

    def test_an_account_that_never_watched_has_no_cursor(self, bob, world):
        """There is nothing to continue."""
        assert bob.get(EVENTS).json["next"] is None

    def test_every_account_has_its_own_events(self, alice, bob, world):
        """Both get an event for the same change, with ids of their own."""
        put(bob)
        cancel(world)
        sweep(world)
        mine, others = alice.get(EVENTS), bob.get(EVENTS)
        assert len(ids(mine)) == len(ids(others)) == 1
        assert ids(mine) != ids(others)
        assert others.json["events"][0]["reference"] is None

    def test_the_next_sweep_is_told(self, alice, monkeypatch):
        """It is shortly after each hour."""
        hour = clock.now() // 3600 * 3600
        for passed, due in ((100, 180), (180, 180 + 3600), (3599, 180 + 3600)):
            monkeypatch.setattr(clock, "now", lambda passed=passed: hour + passed)
            assert alice.get(EVENTS).json["nextSweep"] == clock.iso_utc(hour + due)

    def test_no_reason_is_needed(self, alice, world):
        """It was given with the watch."""
        set_enquiry(world.engine, "standard", "required")
        assert alice.get(EVENTS).status_int == 200

    def test_head_has_no_body(self, alice):
        """HEAD answers like GET."""
        assert alice.request("HEAD", EVENTS).status_int == 200


@engine_independent
class Test400:
    @each_row(
        "query",
        [
            *("limit=0", "limit=1001", "limit=x"),
            *("after=", "after=1", "after=x-1", "after=0000000g-1", "after=00000000-01"),
            *("after=00000000-000000000000000001", "after=00000000-1000000000000000001"),
            *("after=00000000-1&after=00000000-1", f"after=00000000-{10**18}", "after=00000000--1"),
        ],
    )
    def test_a_wrong_parameter_is_refused(self, client, query):
        """A text that can be no cursor, too."""
        answer = client.get(f"{EVENTS}?{query}")
        assert answer.json["code"] == "invalid_parameter"

    def test_an_unknown_parameter_is_refused(self, client):
        """Events cannot be selected."""
        assert client.get(f"{EVENTS}?type=x").json["code"] == "unknown_parameter"

    @pytest.fixture
    def client(self, world):
        return world.client(world.alice_key)


@engine_independent
def test_a_key_is_needed(stranger):
    """Without a key there is no answer."""
    assert stranger.get(EVENTS).status_int == 401


class Test410:
    def gone(self, client, cursor):
        answer = client.get(f"{EVENTS}?after={cursor}")
        return answer.json.get("code") == "events_gone"

    def test_a_cursor_of_another_feed_is_gone(self, alice, bob, world):
        """Of another account, made up, or from the future."""
        put(bob)
        happen(world)
        mine, others = alice.get(EVENTS).json["next"], bob.get(EVENTS).json["next"]
        assert self.gone(alice, others)
        assert self.gone(alice, "00000000-1")
        assert self.gone(alice, f"{mine.partition('-')[0]}-3")
        assert self.gone(alice, mine[:-1] + "3")
        assert not self.gone(alice, mine)

    def test_a_cursor_from_before_the_database_was_turned_back_is_gone(
        self, alice, world, monkeypatch
    ):
        """The numbers after that moment are of other events, so those would be missed."""
        happen(world, 2)
        found, now = ids(alice.get(EVENTS)), clock.now()
        turn_back(world, 2)
        assert self.gone(alice, found[2])
        monkeypatch.setattr(clock, "now", lambda: now + 60)
        happen(world, 2)
        assert [self.gone(alice, each) for each in found] == [False, False, True, True]
        assert list(map(number_of, ids(alice.get(f"{EVENTS}?after={found[1]}")))) == [3, 4, 5, 6]
        assert not self.gone(alice, of_release_before(found[3]))

    def test_a_gap_anywhere_in_the_page_is_no_page(self, alice, world):
        """Cursors before it are gone; those after it are not."""
        happen(world, 4)
        found = ids(alice.get(EVENTS))
        remove_by_age(world, 4, 5)
        gone = [self.gone(alice, each) for each in found]
        assert gone == [True, True, True, True, False, False, False, False]
        assert ids(alice.get(f"{EVENTS}?after={found[0]}&limit=2")) == found[1:3]
        assert self.gone(alice, f"{found[0]}&limit=3")

    def test_a_gap_at_the_end_is_one(self, alice, world):
        """The newest event was removed before an older one."""
        happen(world)
        first, newest = ids(alice.get(EVENTS))
        remove_by_age(world, 2)
        assert self.gone(alice, first)
        assert not self.gone(alice, newest)

    def test_a_cursor_from_before_a_restore_is_gone(self, alice, world):
        """The answer says how to start over, and that works."""
        happen(world)
        before = alice.get(EVENTS).json["next"]
        renew_feeds(world.engine)
        answer = alice.get(f"{EVENTS}?after={before}")
        assert answer.status_int == 410
        assert "list the watches" in answer.json["detail"]
        assert alice.get(PATH).json["watches"]
        again = alice.get(EVENTS).json
        assert len(again["events"]) == 2
        assert not self.gone(alice, again["next"])

    def test_a_cursor_whose_events_were_removed_is_gone(self, alice, world):
        """A client that has seen the newest one has missed nothing."""
        happen(world, 2)
        first, *_, newest = ids(alice.get(EVENTS))
        prune_events(world.engine, range(clock.now() + 1))
        assert self.gone(alice, first)
        assert not self.gone(alice, newest)
        assert alice.get(f"{EVENTS}?after={newest}").json["next"] == newest
        answer = alice.get(EVENTS).json
        assert (answer["events"], answer["next"]) == ([], of_release_before(newest))
