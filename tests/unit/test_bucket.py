"""The token bucket's arithmetic, against rules and other ways to compute it."""

from fractions import Fraction
from itertools import accumulate, pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from app.serve.limits.bucket import SECOND_NS, peek, rate, take

WINDOW_SECONDS_MAX = 366 * 24 * 3600
LIMIT_MAX = 10**9
START_NS = 10**15

windows = st.one_of(
    st.integers(1, 5), st.sampled_from([60, 3600]), st.integers(1, WINDOW_SECONDS_MAX)
)
small_rates = st.builds(rate, st.integers(1, 12), windows)
rates = st.one_of(small_rates, st.builds(rate, st.integers(1, LIMIT_MAX), windows))


@st.composite
def arrivals(draw, chosen=small_rates, size_max=60):
    """A rate, and request times: all at once, near whole intervals, or anywhere."""
    plan = draw(chosen)
    gap = st.one_of(
        st.just(0),
        st.integers(0, 3),
        st.builds(
            lambda intervals, off: max(0, intervals * plan.interval_ns + off),
            st.integers(0, 3),
            st.integers(-2, 2),
        ),
        st.integers(0, plan.interval_ns),
        st.integers(0, 2 * plan.capacity_ns),
    )
    gaps = draw(st.lists(gap, min_size=1, max_size=size_max))
    return plan, [START_NS + passed for passed in accumulate(gaps)]


@st.composite
def used(draw, chosen=rates):
    """A rate, its stored value, and the time: any state that takes can lead to."""
    plan = draw(chosen)
    ahead = st.one_of(
        st.integers(-plan.capacity_ns, plan.capacity_ns),
        st.integers(0, plan.limit).map(lambda tokens: tokens * plan.interval_ns),
        st.integers(0, plan.interval_ns).map(lambda off: plan.capacity_ns - off),
    )
    return plan, START_NS + draw(ahead), START_NS


def run(plan, times, stored=0):
    """Take at each of the times; return the results."""
    outcomes = []
    for now in times:
        outcomes.append(take(plan, stored, now))
        stored = outcomes[-1].full_at_ns
    return outcomes


class Reference:
    """A bucket stored as a level in nanoseconds and the time of that level."""

    def __init__(self, plan, now):
        self.plan, self.level, self.now = plan, plan.capacity_ns, now

    def take(self, now):
        """Return admitted, whole tokens left, nanoseconds until full, nanoseconds missing."""
        self.level = min(self.plan.capacity_ns, self.level + now - self.now)
        self.now = now
        missing = max(0, self.plan.interval_ns - self.level)
        if not missing:
            self.level -= self.plan.interval_ns
        tokens = self.level // self.plan.interval_ns
        full_in = self.plan.capacity_ns - self.level
        return not missing, tokens, full_in, missing


class Exact:
    """A bucket in fractions, without rounding."""

    def __init__(self, limit, window_seconds, now):
        self.limit, self.refill = limit, Fraction(limit, window_seconds * SECOND_NS)
        self.tokens, self.now = Fraction(limit), now

    def take(self, now):
        """Tell whether there was a token."""
        self.tokens = min(Fraction(self.limit), self.tokens + (now - self.now) * self.refill)
        self.now = now
        admitted = self.tokens >= 1
        self.tokens -= admitted
        return admitted


@given(arrivals())
def test_over_any_interval_the_plan_is_kept(case):
    """In any interval of length d at most L + floor(d L / T) requests are admitted."""
    plan, times = case
    admitted = [now for now, each in zip(times, run(plan, times), strict=True) if each.admitted]
    for first, since in enumerate(admitted):
        for count, until in enumerate(admitted[first:], 1):
            earned = (until - since) * plan.limit // (plan.window_seconds * SECOND_NS)
            assert count <= plan.limit + earned


@given(used())
def test_a_refusal_changes_nothing(case):
    """A refusal does not change the stored value."""
    plan, stored, now = case
    outcome = take(plan, stored, now)
    assert outcome.admitted or outcome.full_at_ns == stored


@given(used())
def test_an_admission_costs_one_interval(case):
    """An admitted request moves the time at which the bucket is full by one token's worth."""
    plan, stored, now = case
    outcome = take(plan, stored, now)
    assume(outcome.admitted)
    assert outcome.full_at_ns == max(stored, now) + plan.interval_ns


@given(used())
@example((rate(1, 1), START_NS + SECOND_NS, START_NS))
@example((rate(3, 1), START_NS + 3 * rate(3, 1).interval_ns, START_NS))
def test_retry_after_is_enough_and_a_second_less_is_not(case):
    """A lone client is admitted after Retry-After seconds, and refused one second earlier."""
    plan, stored, now = case
    outcome = take(plan, stored, now)
    assume(not outcome.admitted)
    wait = outcome.retry_after_seconds
    assert wait >= 1
    assert take(plan, outcome.full_at_ns, now + wait * SECOND_NS).admitted
    assert not take(plan, outcome.full_at_ns, now + (wait - 1) * SECOND_NS).admitted


@given(used())
def test_an_admission_needs_no_retry(case):
    """Retry-After is 0 exactly if the request was admitted."""
    outcome = take(*case)
    assert outcome.admitted == (outcome.retry_after_seconds == 0)


@given(used(small_rates))
def test_remaining_is_exact(case):
    """With remaining = r, exactly r more requests are admitted at that instant."""
    plan, stored, now = case
    for outcome in (take(plan, stored, now), peek(plan, stored, now)):
        following = run(plan, [now] * (outcome.remaining + 1), outcome.full_at_ns)
        assert [each.admitted for each in following] == [True] * outcome.remaining + [False]


@given(used())
def test_peek_shows_the_state_before_a_take(case):
    """A peek takes nothing, and sees one token more than a take leaves."""
    plan, stored, now = case
    seen, taken = peek(plan, stored, now), take(plan, stored, now)
    assert seen.full_at_ns == max(stored, now)
    assert seen.admitted == taken.admitted
    assert seen.remaining == taken.remaining + taken.admitted
    assert seen.retry_after_seconds == taken.retry_after_seconds
    assert taken.full_in_ns - seen.full_in_ns == plan.interval_ns * taken.admitted


@given(used())
def test_it_is_full_when_it_says(case):
    """After `full_in_ns` all tokens are there; one nanosecond earlier one is missing."""
    plan, stored, now = case
    outcome = take(plan, stored, now)
    full_at = now + outcome.full_in_ns
    assert peek(plan, outcome.full_at_ns, full_at).remaining == plan.limit
    assert peek(plan, outcome.full_at_ns, full_at - 1).remaining == plan.limit - 1


@given(arrivals())
def test_it_equals_a_reference_bucket_step_by_step(case):
    """Every step equals that of a bucket kept as a level, with the same interval."""
    plan, times = case
    reference = Reference(plan, times[0])
    for now, outcome in zip(times, run(plan, times), strict=True):
        admitted, tokens, full_in, missing = reference.take(now)
        assert outcome.admitted == admitted
        assert outcome.remaining == tokens
        assert outcome.full_in_ns == full_in
        assert outcome.retry_after_seconds == -(-missing // SECOND_NS)


@given(arrivals(st.builds(rate, st.integers(1, 12), st.integers(1, 5))))
def test_it_never_admits_more_than_the_exact_bucket(case):
    """At no moment has it admitted more requests than the bucket in fractions."""
    plan, times = case
    exact = Exact(plan.limit, plan.window_seconds, times[0])
    ahead = 0
    for now, outcome in zip(times, run(plan, times), strict=True):
        ahead += exact.take(now) - outcome.admitted
        assert ahead >= 0


@given(rates)
def test_a_window_is_less_than_limit_nanoseconds_too_long(plan):
    """An empty bucket fills within the window and at most L nanoseconds."""
    assert 0 <= plan.capacity_ns - plan.window_seconds * SECOND_NS < plan.limit
    assert plan.capacity_ns == plan.limit * plan.interval_ns


@given(arrivals(st.builds(rate, st.integers(1, 12), st.integers(1, 5))))
def test_it_is_the_exact_bucket_by_a_clock_that_much_slower(case):
    """It lags the bucket in fractions by at most L nanoseconds per window."""
    plan, times = case
    slower = Fraction(plan.window_seconds * SECOND_NS, plan.capacity_ns)
    exact = Exact(plan.limit, plan.window_seconds, times[0] * slower)
    decisions = [outcome.admitted for outcome in run(plan, times)]
    assert decisions == [exact.take(now * slower) for now in times]


@given(used(), st.integers(1, START_NS))
def test_a_clock_that_steps_back_grants_nothing(case, step):
    """A clock that steps back adds no tokens."""
    plan, stored, now = case
    before = peek(plan, stored, now)
    after = take(plan, stored, now - step)
    assert after.remaining + after.admitted <= before.remaining


@given(used(), st.integers(1, START_NS))
def test_a_clock_that_steps_back_leaves_nobody_stuck(case, step):
    """After a step back and one request, a whole window fills the bucket again."""
    plan, stored, now = case
    now -= step
    outcome = take(plan, stored, now)
    assert outcome.full_in_ns <= plan.capacity_ns
    assert peek(plan, outcome.full_at_ns, now + plan.capacity_ns).remaining == plan.limit


@given(used(), rates)
def test_a_plan_change_leaves_nobody_stuck(case, changed):
    """Under any new plan the bucket is full one new window after the first request."""
    _, stored, now = case
    outcome = take(changed, stored, now)
    assert outcome.full_in_ns <= changed.capacity_ns
    assert outcome.retry_after_seconds <= -(-changed.interval_ns // SECOND_NS)
    assert peek(changed, outcome.full_at_ns, now + changed.capacity_ns).remaining == changed.limit


@given(used(small_rates), small_rates, st.integers(0, 30))
def test_a_plan_change_serves_nobody_more_than_the_new_plan(case, changed, size):
    """After a change, at most the new limit is admitted at once, as from a full bucket."""
    _, stored, now = case
    admitted = sum(outcome.admitted for outcome in run(changed, [now] * size, stored))
    assert admitted <= min(size, changed.limit)


@given(rates, st.integers(1, WINDOW_SECONDS_MAX * SECOND_NS))
def test_a_plan_change_admits_no_clamped_client(changed, beyond):
    """A client that had used more than the new window is refused at that moment."""
    outcome = take(changed, START_NS + changed.capacity_ns + beyond, START_NS)
    assert not outcome.admitted
    assert outcome.full_at_ns == START_NS + changed.capacity_ns


@given(arrivals(rates, size_max=20))
def test_full_again_never_moves_back(case):
    """The time at which the bucket is full only moves forward, and fits 64 bits."""
    outcomes = run(*case)
    for earlier, later in pairwise(outcomes):
        assert later.full_at_ns >= earlier.full_at_ns
    assert outcomes[-1].full_at_ns < 2**63


@pytest.mark.parametrize("stored", [2**64 - 1, 2**63, START_NS + 10**17])
def test_a_damaged_slot_is_an_empty_bucket(stored):
    """An impossible value is clamped: refused now, served again within the window."""
    plan = rate(600, 60)
    outcome = take(plan, stored, START_NS)
    assert not outcome.admitted
    assert outcome.full_at_ns == START_NS + plan.capacity_ns
    assert take(plan, outcome.full_at_ns, START_NS + SECOND_NS).admitted


def test_a_burst_and_its_refill():
    """A plan of 60 per minute admits 60 at once, then one each second."""
    plan = rate(60, 60)
    outcomes = run(plan, [START_NS] * 61 + [START_NS + SECOND_NS] * 2)
    assert [each.remaining for each in outcomes[:60]] == list(reversed(range(60)))
    assert [each.admitted for each in outcomes[59:]] == [True, False, True, False]
    assert outcomes[60].retry_after_seconds == 1
    assert outcomes[60].full_in_ns == 60 * SECOND_NS
