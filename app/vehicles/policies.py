"""Chooses the policy to answer with, and says why (D20)."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeVar

from app.vehicles.facts import PolicyFacts, Terms, rank, terms_of

_P = TypeVar("_P")
PolicyState = Literal["valid", "expired", "cancelled", "future"]


def policy_state(policy: PolicyFacts, day: str) -> PolicyState:
    """Return `valid` for a policy that is in force on the day, else why it is not."""
    if policy.is_in_force(day):
        return "valid"
    if policy.valid_to < day:
        return "expired"
    if policy.cancelled_on is not None and policy.cancelled_on <= max(day, policy.valid_from):
        return "cancelled"
    return "future"


class Choice(NamedTuple):
    """The policy to answer with."""

    register: str
    policy: PolicyFacts
    rule: str
    """The rule that put it before the next best policy, such as `ends_last`."""
    why: str
    """The rule as a sentence for a person."""


def choose_policy(
    policies: Sequence[_P], day: str, terms_of: Callable[[_P], Terms] = terms_of
) -> _P:
    """Return the policy to answer with on the day (ISO date); the only place that chooses (D20).

    Policies in force come first, then those that end later, begin later, and have the greater
    number; a cancellation is an end. Among equals the first one decides.

    Args:
        policies: at least one; in the order of precedence of their registers, within a register in
            that of the insurers' names.
        terms_of: returns the terms of one. PERF: a bulk need not make facts of each.
    """
    if len(policies) == 1:  # PERF: most plates have one.
        return policies[0]
    best, *others = policies
    greatest = rank(terms_of(best), day)
    for each in others:  # PERF: max() takes a sixth longer.
        if (its := rank(terms_of(each), day)) > greatest:
            best, greatest = each, its
    return best


def explain_choice(policies: Sequence[tuple[str, PolicyFacts]], day: str) -> Choice | None:
    """Return the policy to answer with, and why; None if no register knows one.

    Args:
        policies: each with the name of its register, in the order of `choose_policy`.
    """
    if not policies:
        return None
    chosen = choose_policy([policy for _, policy in policies], day)
    best = next(each for each in policies if each[1] is chosen)
    others = [each for each in policies if each is not best]
    others.sort(key=lambda each: each[1].rank(day), reverse=True)
    is_in_force = chosen.is_in_force(day)
    if not others:
        how = "in force" if is_in_force else "not in force"
        return Choice(*best, "only", f"{how} on {day}; no other policy is known")
    rule, reason = _difference(best, others, day)
    how = "in force" if is_in_force else "no policy is in force"
    return Choice(*best, rule, f"{how} on {day}; {reason}")


def _difference(
    chosen: tuple[str, PolicyFacts], others: Sequence[tuple[str, PolicyFacts]], day: str
) -> tuple[str, str]:
    """Return the rule that puts the chosen policy before the next best, and a sentence."""
    (register, best), (its_register, next_best) = chosen, others[0]
    other = f"policy {next_best.number} of {its_register}"
    if best.is_in_force(day) != next_best.is_in_force(day):
        # The same policy can be in force in one register, and not in another.
        ended = [
            f"{name} has the same policy, which {_ended(policy, day)}"
            for name, policy in others
            if policy.identity == best.identity
        ]
        return "in_force", "; ".join(ended) or "no other policy is"
    if best.ending != next_best.ending:
        its, that = (
            end if covers_end else f"cancelled on {end}"
            for end, covers_end in (best.ending, next_best.ending)
        )
        return "ends_last", f"ends later ({its}) than {other} ({that})"
    if best.valid_from != next_best.valid_from:
        begins = f"begins later ({best.valid_from}, not {next_best.valid_from})"
        return "begins_last", f"ends on the same day as {other}, and {begins}"
    if best.number != next_best.number:
        return "greatest_number", f"has the same dates as {other}, and the greater number"
    same = f"has the same dates and number as {other}"
    if register == its_register:
        return "first_insurer", f"{same}, and its insurer sorts first"
    return "register_order", f"{same}, and {register} comes first in the order of registers"


def _ended(policy: PolicyFacts, day: str) -> str:
    if policy_state(policy, day) == "expired":
        return f"ended on {policy.valid_to}"
    return f"was cancelled on {policy.cancelled_on}"
