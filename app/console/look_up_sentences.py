"""The sentences of the look-up page about one plate: verdicts, what is missing, its receipt.

They are made from labels and dates of `look_up_texts`; both modules are translated together.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from app.console import look_up_texts as texts
from app.vehicles.contradictions import opposite_in_words
from app.vehicles.periods import Period

AnswerObject = Mapping[str, Any]
"""An object of the document of `explanation`: a plate, one of its answers, or a policy.

A plate also has `missing`: by day what `look_up_missing` finds; and `ages`, those of both answers.
"""

NO_POLICY = "no register knows a policy"
NOT_COMPLETE = "no register is said to hold every policy"
BUT_INSURED = "but {} says insured"
EXEMPT = "exempt"
NO_EXPIRY, NO_STATUS = "no register knows an expiry", "no register knows a status"
NO_FINES = "no register has fines"

_FAILS = {
    ("motValid", "unknown"): "none is known",
    ("roadTaxPaid", "unknown"): "no status is known",
    ("roadTaxPaid", "sorn"): "SORN, declared off the road",
}
"""Why a check fails, where the reason alone is too short."""
_CHECK_OF = {"insured": "insuranceValid"}
"""The check of a decision, where it has another name."""
_FINES_SHOWN_MAX = 10


def vehicle(plate: AnswerObject) -> str:
    """Return make, model, year and colour of a plate, as far as they are known."""
    its = plate["insurance"]["vehicle"] if "insurance" in plate else {}
    return texts.vehicle_in_words(*(its.get(name) for name in ("make", "model", "year", "color")))


def many_policies(insurance: AnswerObject) -> str:
    """Return how many policies are in force."""
    more = "more than " if "policiesTruncated" in insurance else ""
    return f"{more}{len(insurance['policies'])} policies"


def policy_line(policy: AnswerObject) -> str:
    insurer = f" of {policy['insurer']}" if policy["insurer"] else ""
    kind = f", {policy['type']}" if policy["type"] else ""
    lasts = f"{texts.in_words(policy['validFrom'])} to {texts.in_words(policy['validTo'])}"
    cancelled = policy["cancelledOn"]
    ends = f", cancelled on {texts.in_words(cancelled)}" if cancelled else ""
    return f"{policy['number']}{insurer}{kind}, {lasts}{ends}"


def policy_state(policy: AnswerObject) -> str:
    """Return the state of a policy in a register."""
    on = f" on {texts.in_words(policy['cancelledOn'])}" if policy["cancelledOn"] else ""
    return f"{texts.reason_in_words(policy['state'])}{on}"


def not_known_then(register: str, value: str, first_day: str, day: str) -> str:
    """Return that a register says something without a date, which says nothing about a day.

    Args:
        first_day: the first one for which it is known; ISO date, like `day`.
    """
    known = f"since {texts.in_words(first_day)}" if day < first_day else "for today only"
    return f"{register} says {value}, known {known}; nothing is known for {texts.in_words(day)}"


def complete_now(registers: Sequence[str], day: str) -> str:
    """Return that registers hold every policy of today, but not of a day before."""
    hold = "holds" if len(registers) == 1 else "hold"
    return (
        f"{' and '.join(registers)} {hold} every policy of today; nothing is known for "
        f"{texts.in_words(day)}"
    )


def mot_until(expiry: str) -> str:
    """Return what a register says about the MOT."""
    return f"valid until {texts.in_words(expiry)}"


def tax_status(status: str, due: str | None) -> str:
    """Return what a register says about the road tax."""
    word = texts.reason_in_words(status)
    return f"{word} until {texts.in_words(due)}" if due and status in ("taxed", "exempt") else word


class VerdictText(NamedTuple):
    """A verdict: in large letters, and in sentences below."""

    name: str
    """What it is about."""
    tone: str
    """`good`, `warn`, `bad` or `unknown`."""
    word: str
    details: Sequence[str]
    age: str
    """Which data decided; all data, if nothing did."""
    about: str = ""
    """What is not known, for those who do not see `name`."""


def told(plate: AnswerObject, document: AnswerObject, day: str) -> list[VerdictText]:
    """Return the verdicts about a plate: whether it is insured, and compliant; or why none is.

    Args:
        document: that of the plate; it also has `ages`, by register.
    """
    all_data = texts.data_of(document["ages"])
    if "error" in plate:
        if not plate["registration"]:
            return [
                VerdictText(texts.ANSWER, "warn", texts.NOT_A_PLATE, [f"{plate['error']}."], "")
            ]
        registers = ", ".join(document["registers"])
        known = texts.UNMENTIONED.format(registers) if registers else texts.NO_REGISTER
        return [VerdictText(texts.ANSWER, "warn", texts.NOT_FOUND, [known], all_data)]
    insurance, compliance = plate["insurance"], plate["compliance"]
    insured, compliant = insurance.get("period", {}), compliance.get("period", {})
    # Of a period that fails or is not known, the first such day counts.
    reasons = insured.get("reasons", compliance["reasons"])
    why = why_not_insured(reasons["insuranceValid"], insured.get("policy", plate["chosenPolicy"]))
    failed = compliant if "reasons" in compliant else compliance
    lacks = plate["missing"][insured.get("firstFailingDay", day)].get("insuranceValid", ())
    missing = plate["missing"][compliant.get("firstFailingDay", day)]
    fails, unknown = list(_fails(failed, compliance, missing)), list(_not_known(missing))
    of_insurance, of_compliance = (texts.ages(each) or all_data for each in plate["ages"])
    verdicts = (
        _told(_INSURANCE, insurance, day, [why], lacks, of_insurance),
        _told(_COMPLIANCE, compliance, day, fails, unknown, of_compliance),
    )
    return [each._replace(age=all_data) if each.tone == "unknown" else each for each in verdicts]


class _CheckQuestion(NamedTuple):
    """What is asked about a vehicle: the verdicts, and the members of its answer."""

    name: str
    good: str
    bad: str
    member: str
    until: str

    @property
    def whether(self) -> str:
        """The question in words."""
        return f"whether {self.good.lower()}"


_INSURANCE = _CheckQuestion(
    texts.INSURANCE, texts.INSURED, texts.NOT_INSURED, "insured", "insuredUntil"
)
_COMPLIANCE = _CheckQuestion(
    texts.COMPLIANCE, texts.COMPLIANT, texts.NOT_COMPLIANT, "compliant", "compliantUntil"
)


def _told(
    question: _CheckQuestion,
    answer: AnswerObject,
    day: str,
    fails: Sequence[str],
    missing: Sequence[str],
    age: str,
) -> VerdictText:
    """Return the verdict about a question.

    Args:
        fails: why the vehicle fails for certain.
        missing: what is not known.
    """
    name, period = question.name, answer.get("period", {})
    if "tooManyPolicies" in period:
        why = f"{question.whether}: {texts.TOO_MANY_POLICIES} end on the first day or later"
        return VerdictText(name, "warn", texts.NOT_JUDGED, [why], age)
    start = []
    if "firstFailingDay" in period:
        start = [f"from {texts.in_words(period['firstFailingDay'], with_weekday=True)}"]
    if "validThroughout" in period.get("unknown", ()) or (
        not period and question.member in answer.get("unknown", ())
    ):
        return VerdictText(
            name, "unknown", texts.NOT_KNOWN, [*start, *missing], age, question.whether
        )
    if start or not answer[question.member]:
        return VerdictText(name, "bad", question.bad, [*start, *fails, *missing], age)
    every = ["on every day"] if period else []
    until = end(answer, question.until, day)
    return VerdictText(name, "good", question.good, [*every, until, *missing], age)


def end(answer: AnswerObject, until_name: str, day: str) -> str:
    """Return until when an answer holds.

    Args:
        until_name: the member that has its last day.
    """
    if "tooManyPolicies" in answer:
        return f"later days are not judged: {texts.TOO_MANY_POLICIES}"
    last_day = answer[until_name]
    return texts.NO_END if last_day is None else texts.until(last_day, day)


def why_not_insured(reason: str, policy: AnswerObject | None) -> str:
    """Return why a vehicle is not insured.

    Args:
        policy: the one that comes closest, if there is one.
    """
    if policy and (ended := _ended(reason, policy)):
        return f"policy {policy['number']} {ended}"
    if reason == "no_policy":
        return "no policy is known, and a register holds every policy"
    says_so = "a register says not insured, and " if reason == "none" else ""
    return f"{says_so}no policy is known"


def _fails(answer: AnswerObject, dates: AnswerObject, missing: AnswerObject) -> Iterator[str]:
    """Yield each check that fails for certain, with its reason."""
    for check, title in texts.CHECKS.items():
        reason = answer["reasons"][check]
        if answer["checks"][check] or check in missing:
            continue
        if check == "insuranceValid":
            yield texts.NOT_INSURED.lower()  # The verdict about insurance says why.
        elif check == "noOutstandingFines":
            yield f"{title}: {_fines_owed(dates)}"
        elif reason == "expired":
            yield f"{title}: ended on {texts.in_words(_last_day(check, dates))}"
        else:
            yield f"{title}: {_FAILS.get((check, reason)) or texts.reason_in_words(reason)}"


def _not_known(missing: AnswerObject) -> Iterator[str]:
    """Yield each check whose outcome is not known, with what is missing."""
    for check, why in missing.items():
        if check == "insuranceValid":
            yield texts.check_not_known(check, ())  # The verdict about insurance says why.
        else:
            yield texts.check_not_known(check, why)


def _last_day(check: str, dates: AnswerObject) -> str:
    last_day: str = dates["taxDue" if check == "roadTaxPaid" else "motExpiry"]
    return last_day


def _fines_owed(dates: AnswerObject) -> str:
    count = dates["finesOutstanding"]
    return f"{'at least ' if count == 100 else ''}{count} owed now"


def fines_owed(plate: AnswerObject) -> list[str]:
    """Return the fines that are owed, such as `70.00 GBP, PCN00001, 1 October 2026`.

    A fine that several registers have is one.
    """
    owed = [
        ", ".join(
            [
                amount(fine),
                fine["reference"],
                *([texts.in_words(fine["issuedOn"])] if fine["issuedOn"] else []),
            ]
        )
        for holding in plate["registers"]
        for fine in holding["fines"]
        if fine["outstanding"]
    ]
    found = list(dict.fromkeys(owed))
    more = len(found) - _FINES_SHOWN_MAX
    return found[:_FINES_SHOWN_MAX] + ([f"and {more:,} more"] if more > 0 else [])


def amount(fine: AnswerObject) -> str:
    """Return the amount of a fine, with its currency if a register knows it."""
    return f"{fine['amount']} {fine['currency'] or ''}".rstrip()


def depends_on(check: str, plate: AnswerObject, day: str) -> str:
    """Return the date or number that a check depends on; empty if there is none."""
    its, policy = plate["compliance"], plate["chosenPolicy"]
    is_good, reason = its["checks"][check], its["reasons"][check]
    if check == "noOutstandingFines":
        return "" if is_good else _fines_owed(its)
    if check == "insuranceValid":
        return end(plate["insurance"], "insuredUntil", day) if is_good else _ended(reason, policy)
    last_day = _last_day(check, its)
    text = texts.NO_END if reason == "valid" else ""
    if reason == "not_due":
        text = f"first registered on {texts.in_words(its['firstRegistered'])}"
    elif reason == "expired":
        text = f"ended on {texts.in_words(last_day)}"
    elif is_good and last_day and (check, reason) != ("motValid", "exempt"):
        text = texts.until(last_day, day)
    return text


def missing_of(column: str, plate: AnswerObject, day: str) -> Sequence[str]:
    """Return what is missing where a check of a decision is not known; empty if it is known."""
    lacks: Sequence[str] = plate["missing"][day].get(_CHECK_OF.get(column, column), ())
    return lacks


def contradiction(check: str, plate: AnswerObject) -> str:
    """Return which registers say the opposite of a check; empty if none does."""
    decisions = plate["decidedBy"]
    registers = next(
        e["contradictedBy"] for e in decisions if _CHECK_OF.get(e["column"], e["column"]) == check
    )
    return f"But {opposite_in_words(registers)}." if registers else ""


def _ended(reason: str, policy: AnswerObject) -> str:
    """Return when a policy ended or begins, if that is why a vehicle is not insured."""
    if reason == "expired":
        return f"ended on {texts.in_words(policy['validTo'])}"
    if reason == "cancelled":
        return f"was cancelled on {texts.in_words(policy['cancelledOn'])}"
    return f"begins on {texts.in_words(policy['validFrom'])}" if reason == "future" else ""


def receipt(
    plate: AnswerObject, verdicts: Sequence[VerdictText], day: str, period: Period | None
) -> Iterator[tuple[str, str, str]]:
    """Yield the lines of a receipt about a plate, each with its name and the tone of a verdict."""
    # Nobody reads more of a text that is no plate; the form takes 300,000 characters.
    asked, registration = plate["asked"][:100], plate["registration"]
    as_asked = "" if registration in (None, asked) else f" ({texts.ASKED_AS.format(asked)})"
    yield texts.PLATE, f"{registration}{as_asked}" if as_asked else asked, ""
    if known := vehicle(plate):
        yield texts.VEHICLE, known, ""
    yield texts.DAY, texts.days(day, period), ""
    for each in verdicts:
        yield each.name, "; ".join([each.word, *each.details]), each.tone
    # That of compliance has the age of the insurance, too.
    *_, last = sorted(verdicts, key=lambda each: each.tone == "unknown")
    if last.age:
        yield texts.DATA, last.age, ""
