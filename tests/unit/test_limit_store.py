"""The store of the buckets: independent, shared exactly by all processes, of constant size."""

import fcntl
import gc
import ipaddress
import random
import shutil
import sys
import threading
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.accounts.models import ACCOUNTS_MAX
from app.serve.limits import bucket
from app.serve.limits.bucket import SECOND_NS, Admission, rate
from app.serve.limits.file import ACCOUNT_SLOTS, ADDRESS_SLOTS, FILE_BYTES, StoreError
from app.serve.limits.store import account_slot, start
from tests.unit.limit_files import DATABASE, FORK, NOW_NS, PLAN, in_processes, left, opened, spend

LAST_SLOT = ACCOUNT_SLOTS + ADDRESS_SLOTS - 1


class Clock:
    """A clock that tests set."""

    def __init__(self):
        self.now_ns = NOW_NS

    def __call__(self):
        return self.now_ns


@pytest.fixture
def path(tmp_path):
    """The path of the file; it is removed afterwards because it is large."""
    path = tmp_path / "state" / "limits"
    yield path
    shutil.rmtree(path.parent, ignore_errors=True)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def store(path, clock):
    """A store with its file."""
    start(path, DATABASE)
    return opened(path, clock)


class TestBuckets:
    def test_it_admits_what_the_plan_allows(self, store, clock):
        """A bucket admits its limit at once, then one request per interval."""
        outcomes = [store.take(7, PLAN) for _ in range(6)]
        assert [each.remaining for each in outcomes] == [4, 3, 2, 1, 0, 0]
        assert [each.admitted for each in outcomes] == [True] * 5 + [False]
        clock.now_ns += 12 * SECOND_NS
        assert store.take(7, PLAN).admitted
        assert not store.take(7, PLAN).admitted

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        st.lists(
            st.tuples(
                st.sampled_from([0, 1, 2, ACCOUNT_SLOTS - 1, ACCOUNT_SLOTS, LAST_SLOT]),
                st.sampled_from(["take", "peek", "fill"]),
                st.sampled_from([PLAN, rate(2, 10)]),
                st.integers(0, 15 * SECOND_NS),
            ),
            max_size=60,
        )
    )
    def test_buckets_are_independent(self, store, clock, steps):
        """A bucket is not affected by requests to other buckets."""
        expected = {}
        for slot in {slot for slot, *_ in steps}:
            store.fill(slot, PLAN)
            expected[slot] = 0
        for slot, what, plan, passed in steps:
            clock.now_ns += passed
            ask = bucket.take if what == "take" else bucket.peek
            stored = 0 if what == "fill" else expected[slot]
            outcome = ask(plan, stored, clock.now_ns)
            assert getattr(store, what)(slot, plan) == outcome
            if what != "peek":
                expected[slot] = outcome.full_at_ns

    def test_peek_takes_nothing(self, store, path):
        """Any number of peeks changes no byte of the file."""
        spend(store, 2)
        before = path.read_bytes()
        assert [left(store) for _ in range(10)] == [3] * 10
        assert path.read_bytes() == before

    def test_a_file_that_is_removed_is_missed_when_it_is_looked_at(self, store, path):
        """Once while the store is held, else each time (D170)."""
        for _ in range(2):
            store.hold()
            store.take(7, PLAN)
            path.rename(f"{path}.away")
            store.take(7, PLAN)
            store.release()
            with pytest.raises(StoreError):
                store.take(7, PLAN)
            path.with_name("limits.away").rename(path)
        assert store.take(7, PLAN).remaining == 0

    def test_a_store_that_nobody_uses_any_more_leaves_no_file_open(self, path, clock):
        """A process that made many applications would run out of descriptors."""
        start(path, DATABASE)
        opened(path, clock).take(7, PLAN)
        gc.collect()
        fds = Path("/proc/self/fd")
        assert path not in {fd.resolve() for fd in fds.iterdir()}

    def test_fill_fills(self, store):
        """A filled bucket has all its tokens, and other buckets do not change."""
        spend(store, 5)
        spend(store, 2, slot=1)
        assert store.fill(0, PLAN).remaining == 5
        assert (left(store), left(store, 1)) == (5, 3)

    @pytest.mark.parametrize("slot", [-1, LAST_SLOT + 1])
    def test_there_is_no_bucket_beyond_the_last(self, store, slot):
        """A number without a slot is refused, and nothing else is read or written."""
        with pytest.raises(StoreError, match="has no bucket"):
            store.take(slot, PLAN)

    def test_every_possible_account_has_a_bucket(self):
        """Every possible account number, from 1, has its own slot."""
        assert ACCOUNT_SLOTS == ACCOUNTS_MAX
        assert account_slot(1) == 0
        assert account_slot(ACCOUNTS_MAX) == ACCOUNT_SLOTS - 1
        for number in (0, -1, ACCOUNTS_MAX + 1):
            with pytest.raises(StoreError, match="has no bucket"):
                account_slot(number)


class TestAddresses:
    def slot(self, store, text):
        return store.address_slot(ipaddress.ip_address(text) if text else None)

    def test_an_ipv4_address_has_a_bucket_alone(self, store):
        """Neighbouring IPv4 addresses have different buckets (D10)."""
        assert self.slot(store, "192.0.2.1") == self.slot(store, "192.0.2.1")
        assert self.slot(store, "192.0.2.1") != self.slot(store, "192.0.2.2")

    def test_an_ipv6_network_shares_a_bucket(self, store):
        """Addresses of one IPv6 /64 share a bucket; the next /64 has another (D10)."""
        first = self.slot(store, "2001:db8::1")
        assert self.slot(store, "2001:db8::ffff:ffff:ffff:ffff") == first
        assert self.slot(store, "2001:db8:0:1::1") != first

    def test_local_clients_have_a_bucket(self, store):
        """Clients on a Unix socket share a bucket that no address has."""
        assert self.slot(store, None) not in (
            self.slot(store, "0.0.0.0"),
            self.slot(store, "::"),
        )

    def test_which_addresses_share_a_bucket_cannot_be_known(self, path):
        """Each installation spreads addresses differently."""
        slots = []
        for database in (DATABASE, DATABASE[::-1]):
            start(path, database)
            slots.append(self.slot(opened(path), "192.0.2.1"))
        assert slots[0] != slots[1]

    def test_no_address_has_an_accounts_bucket(self, store):
        """Addresses are spread evenly over the slots after those of the accounts."""
        chance = random.Random(0)
        addresses = (ipaddress.IPv4Address(chance.getrandbits(32)) for _ in range(20_000))
        slots = [store.address_slot(address) for address in addresses]
        assert min(slots) >= ACCOUNT_SLOTS
        assert max(slots) <= LAST_SLOT
        assert max(Counter(slots).values()) < 10

    @pytest.mark.system_long
    def test_100_000_addresses_cost_constant_memory(self, store, path):
        """Any number of addresses without a key grows neither memory nor the file."""
        chance = random.Random(0)

        def come(count):
            for _ in range(count):
                address = ipaddress.IPv6Address(chance.getrandbits(128))
                store.take(store.address_slot(address), PLAN)

        come(1_000)
        before = sys.getallocatedblocks()
        come(100_000)
        assert sys.getallocatedblocks() - before < 100
        assert path.stat().st_size == FILE_BYTES


class TestSharing:
    def test_processes_and_threads_share_a_bucket_exactly(self, path, clock):
        """Threads of forked processes share the limit exactly, and each token is used once."""
        plan = rate(400, 60)
        store = opened(path, clock)
        # After a fork, a descriptor of the parent would not exclude the child.
        before = store.take(0, plan)

        def work():
            outcomes: list[Admission] = []

            def take():
                outcomes.extend(store.take(0, plan) for _ in range(50))

            threads = [threading.Thread(target=take) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            return [each.remaining for each in outcomes if each.admitted]

        remaining = [before.remaining, *chain.from_iterable(in_processes(4, work))]
        assert sorted(remaining) == list(range(400))

    def test_stores_in_one_process_share_a_bucket_exactly(self, path, store, clock):
        """Two applications in one process count like two processes."""
        plan = rate(200, 60)
        stores, remaining = [store, opened(path, clock)], list[int]()

        def take(one):
            outcomes = [one.take(0, plan) for _ in range(150)]
            remaining.extend(each.remaining for each in outcomes if each.admitted)

        threads = [threading.Thread(target=take, args=(each,)) for each in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(remaining) == list(range(200))

    def test_a_fork_during_a_take_leaves_the_child_working(self, store):
        """A child that is forked while a thread holds the locks has its own locks."""
        spend(store, 1)
        # Hold the locks at the moment of the fork, as another thread could.
        store._threads.acquire()
        fcntl.flock(store._descriptor, fcntl.LOCK_EX)

        def work():
            try:
                return store.take(0, PLAN).remaining
            except StoreError as error:
                return str(error)

        results = FORK.SimpleQueue()
        child = FORK.Process(target=lambda: results.put(work()))
        child.start()
        fcntl.flock(store._descriptor, fcntl.LOCK_UN)
        store._threads.release()
        assert results.get() == 3
        child.join()
        assert left(store) == 3

    def test_a_stopped_process_holds_nobody_for_long(self, store, path):
        """A lock that is not released causes a store error, and no harm afterwards."""
        spend(store, 1)
        with open(path, "rb") as stopped:
            fcntl.flock(stopped, fcntl.LOCK_EX)
            with pytest.raises(StoreError, match="locked by a stopped process"):
                store.take(0, PLAN)
        assert left(store) == 4
