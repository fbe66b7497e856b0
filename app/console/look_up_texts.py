"""Every text of the look-up page: labels, verdicts, reasons, dates and plurals (D191).

A module with the same names in another language is a translation. Sentences about a wrong field or
an invalid plate, and why a register decided, are those of the forms, the API and `verifyd lookup`.
What every page has, such as the button to sign out, is in `layout.html`.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, tzinfo
from typing import Any, NamedTuple

from app import nouns
from app.vehicles.contradictions import opposite_in_words
from app.vehicles.facts import POLICIES_MAX
from app.vehicles.periods import DAYS_MAX, Period
from app.vehicles.reader import BATCH_PLATES

Answer = Mapping[str, Any]
"""An object of the document of `explanation`: a plate, one of its answers, or a policy."""

# The form.
TITLE = "Look up"
PLATES = "Plates"
PLATES_HINT = (
    "In any spelling: a plate, a list, or a table copied from a spreadsheet; "
    f"at most {BATCH_PLATES:,} plates."
)
KEYS = ("Enter", "looks up"), ("Shift+Enter", "begins a new line"), ("Esc", "clears")
DAY, DAY_HINT = "Day", "Today, if empty."
FROM, FROM_HINT = "From", "First day of a period."
TO, TO_HINT = "To", f"Last of at most {DAYS_MAX} days."
REASON, REASON_HINT = "Reason", "Why you ask."
REFERENCE, REFERENCE_HINT = "Reference", "A case number or the like."
OPTIONAL = "optional"
KEEP, KEEP_HINT = "Keep", "the reference for the next look-up"
DAY_OR_PERIOD, TODAY = "Day or period", "today"
LOOK_UP, CLEAR = "Look up", "Clear"
REFUSED = "Nothing was looked up."
NO_PLATE = "Enter at least one plate."
TOO_MANY = (
    f"A list can have {BATCH_PLATES:,} plates; this one has {{:,}}. On the host, "
    "“verifyd lookup --csv” answers files of any size."
)

# The question about a pasted table.
WHICH_COLUMN = "Which column has the plates?"
IS_HEADING = "Is the first line a heading?"
CHOOSE_COLUMN = "Choose the column that has the plates."
HEADING, COLUMN = "The first line is a heading: {}", "Column {}"
EVERY_CELL, EVERY_CELL_HINT = "All cells", "Each cell is a plate."

# Answers.
NOT_FOUND, NOT_A_PLATE, NOT_JUDGED = "Not found", "Not a plate", "Not judged"
INSURED, NOT_INSURED = "Insured", "Not insured"
COMPLIANT, NOT_COMPLIANT = "Compliant", "Not compliant"
UNMENTIONED, NO_REGISTER = "No register mentions it: {}.", "No register is loaded."
ASKED_AS = "asked for as {}"
DID_YOU_MEAN, DID_YOU_MEAN_ONE = "Did you mean this one?", "Did you mean one of these?"
NEXT = "What to do next"
VEHICLE, PLATE = "Vehicle", "Plate"
POLICIES_IN_FORCE, POLICY_NOT_IN_FORCE, NONE = "Policies in force", "Policy not in force", "none"
ON_DAY = "On {}"
ANSWER_IN_FULL, FOR = "Answer in full", "for {}"
PRINT, COPY_RECEIPT, COPIED, DOWNLOAD = "Print", "Copy receipt", "Copied", "Download as CSV"
CHANGE_PLATE, CHANGE_LIST = "Change this plate", "Change this list"
DECIDED_BY, DECIDED_FOR = "Decided by", "What decided the answer for {}"
EACH_REGISTER, NOTHING = "What each register says", "nothing"
POLICIES_OF, FINES_OF = "Policies of {} in {}", "Fines of {} in {}"
RECEIPT, TIME, PERSON, REQUEST = "Receipt of a look-up", "Time", "Asked by", "Request"
WHAT, ANSWER, REGISTER, WHY = "What", "Answer", "Register", "Why"
POLICY_COLUMNS = ("Policy", "Insurer", "Type", "From", "To", "State")
FINE_COLUMNS = ("Fine", "Issued", "Amount", "State")
OWED, SETTLED = "owed", "settled"
YES, NO = "yes", "no"
MEMBERS = {
    "insured": "Insured",
    "policy": "Policy",
    "make": "Make",
    "model": "Model",
    "year": "Year",
    "color": "Colour",
    "lastUpdated": "Last updated",
    "motValid": "MOT",
    "roadTaxPaid": "Road tax",
    "noOutstandingFines": "No fines owed",
    "motExpiry": "MOT expiry",
    "motExempt": "MOT exempt",
    "firstRegistered": "First registered",
    "taxStatus": "Tax status",
    "taxDue": "Tax paid until",
}
CHECKS = {
    "insuranceValid": "Insurance",
    "motValid": "MOT",
    "roadTaxPaid": "Road tax",
    "noOutstandingFines": "Fines",
}

# The table of a list.
ROW_COLUMNS = ("Plate", "Next lapse", "Insurance", "Compliance", "Fails", "Vehicle")
ROW_CHECKS = ("insurance", "MOT", "road tax", "fines")
LAPSES, LAPSES_THEN, FROM_DAY = "{} until", "then {} until", "from"
ROW_INSURED, ROW_COMPLIANT, NO_ANSWER = "insured", "compliant", "No answer"
ROW_NOT_INSURED, ROW_NOT_COMPLIANT, ROW_NOT_JUDGED = "not insured", "not compliant", "not judged"
SORTED = (
    "What fails comes first; then the next lapse, which is the last day on which insurance, MOT or "
    "road tax is still in order. What is not known follows."
)
FIRST_OF = "These are the first {:,}. The CSV file has all plates, in this order."
FAILING, LAPSING, UNKNOWN, ALL = "Failing", "Lapsing within 30 days", "Not known", "All"
GROUPS = "Parts of the list"
CHOOSE_PLATE = "Choose a plate to see its answer in a new tab."
TOO_MANY_POLICIES = f"more than {POLICIES_MAX} policies"
OTHERS_END_LATER = f"Of {TOO_MANY_POLICIES}, others may end later than those after the first."
ROW_TOO_MANY_POLICIES = f"not judged: {TOO_MANY_POLICIES}"
NO_END, NOTHING_LEFT = "no end is known", "nothing is left to lapse"

# Pages in place of an answer: a heading and a text.
WITHOUT_TRAIL = (
    "You cannot look up now",
    "Clerks look up only while the audit trail is on, and it is off. The operator can turn it on: "
    "{variable}=on.",
)
UNREADABLE = (
    "A register cannot be read",
    "Look-ups fail until the register {register} is restored, or dropped and loaded again.",
)
UNRECORDED = (
    "The look-up cannot be recorded",
    "Look-ups are answered only if the audit trail has them. “verifyd check” says what is wrong.",
)

_REASONS = {"future": "not begun", "sorn": "SORN", "flag": "a register says insured"}
"""Reasons that people would not understand as the API gives them."""
_FAILS = {
    ("motValid", "unknown"): "none is known",
    ("roadTaxPaid", "unknown"): "no status is known",
    ("roadTaxPaid", "sorn"): "SORN, declared off the road",
}
"""Why a check fails, where the reason alone is too short."""
_MONTHS = (
    "January February March April May June July August September October November December".split()
)
_FINES_SHOWN_MAX = 10
_ISO_DAY = re.compile(r"\b\d{4}-(?:0\d|1[0-2])-(?:[0-2]\d|3[01])\b(?!T)")
_ENTRY_CHARACTERS_MAX = 60
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def in_words(text: str, *, with_weekday: bool = False) -> str:
    """Return an ISO date as people write it, such as `4 August 2027`."""
    day = date.fromisoformat(text)
    words = f"{day.day} {_MONTHS[day.month - 1]} {day.year}"
    return f"{_WEEKDAYS[day.weekday()]}, {words}" if with_weekday else words


def with_days_in_words(text: str) -> str:
    """Return a text in which ISO dates are written as people write them."""
    return _ISO_DAY.sub(lambda found: in_words(found[0]), text)


def recorded(time: str, zone: tzinfo) -> str:
    """Return the time of a record as people write it, in the operator's time zone."""
    here = datetime.fromisoformat(time).astimezone(zone)
    return f"{in_words(here.date().isoformat())}, {here:%H:%M:%S} ({zone})"


def days(day: str, period: Period | None) -> str:
    """Return the day of an answer, or its period."""
    first = in_words(day, with_weekday=True)
    return f"{first} to {in_words(period.last, with_weekday=True)}" if period else first


def asked_days(day: str, first: str, last: str) -> str:
    """Return the day or the period of the form; each text may be empty."""
    return " to ".join(in_words(each) for each in (day, first, last) if each) or TODAY


def day_count(count: int) -> str:
    """Return how many days are left."""
    return "last day" if count == 0 else "1 day" if count == 1 else f"{count:,} days"


def until(last_day: str, day: str) -> str:
    """Return until when something is in order, such as `until 4 August 2027, 254 days`."""
    left = (date.fromisoformat(last_day) - date.fromisoformat(day)).days
    return f"until {in_words(last_day)}, {day_count(left)}"


def _plates(count: int) -> str:
    return nouns.counted(count, "plate")


def refusal(asked: int, left: int, limit: int, next_at: datetime) -> str:
    """Return why a look-up of so many plates is refused, and when the next one is possible."""
    when = f"{in_words(next_at.date().isoformat())} at {next_at:%H:%M} ({next_at.tzinfo})"
    if not left:
        return f"You have used your {_plates(limit)} of today. Look up again on {when}."
    return (
        f"This look-up has {_plates(asked)}, and you have {left:,} of your {limit:,} left today. "
        f"Shorten it, or look up again on {when}."
    )


def answers_for(total: int, day: str, period: Period | None) -> str:
    """Return the heading of the answers."""
    return f"{'Answer' if total == 1 else 'Answers'} for {days(day, period)}"


def counted(counts: Mapping[str, int], total: int, *, is_period: bool) -> str:
    """Return how many plates of a list have which answer."""
    every, of = (" on every day", " of the first day") if is_period else ("", "")
    return (
        f"{total:,} plates: {counts['found']:,} found, {counts['unknown']:,} not found, "
        f"{counts['invalid']:,} invalid. Insured{every}: {counts['insured']:,}. "
        f"Compliant{every}: {counts['compliant']:,}. Failing: {counts['failing']:,}. "
        f"Lapsing within 30 days{of}: {counts['soon']:,}."
    )


def separated_by_blanks(entry: str) -> str:
    """Return the hint that an entry of a list seems to be several plates."""
    shown = entry if len(entry) <= _ENTRY_CHARACTERS_MAX else f"{entry[:_ENTRY_CHARACTERS_MAX]}..."
    return (
        f"“{shown}” counts as one plate, because plates can contain spaces. If these are several, "
        "write each on a line of its own, or put commas between them."
    )


def vehicle(plate: Answer) -> str:
    """Return make, model, year and colour of a plate, as far as they are known."""
    its = plate["insurance"]["vehicle"] if "insurance" in plate else {}
    return vehicle_in_words(*(its.get(name) for name in ("make", "model", "year", "color")))


def vehicle_in_words(
    make: str | None, model: str | None, year: int | None, color: str | None = None
) -> str:
    """Return what is known of a vehicle, such as `Ford Focus, 2012, Blue`."""
    name = " ".join(each for each in (make, model) if each is not None)
    known = (name or None, year, color)
    return ", ".join(str(each) for each in known if each is not None)


def many_policies(insurance: Answer) -> str:
    """Return how many policies are in force."""
    more = "more than " if "policiesTruncated" in insurance else ""
    return f"{more}{len(insurance['policies'])} policies"


def policy_line(policy: Answer) -> str:
    """Return a policy in one line."""
    insurer = f" of {policy['insurer']}" if policy["insurer"] else ""
    kind = f", {policy['type']}" if policy["type"] else ""
    lasts = f"{in_words(policy['validFrom'])} to {in_words(policy['validTo'])}"
    ends = f", cancelled on {in_words(policy['cancelledOn'])}" if policy["cancelledOn"] else ""
    return f"{policy['number']}{insurer}{kind}, {lasts}{ends}"


def policy_state(policy: Answer) -> str:
    """Return the state of a policy in a register."""
    on = f" on {in_words(policy['cancelledOn'])}" if policy["cancelledOn"] else ""
    return f"{reason_in_words(policy['state'])}{on}"


def reason_in_words(reason: str) -> str:
    """Return the reason of a check as people read it."""
    return _REASONS.get(reason) or reason.replace("_", " ")


class Told(NamedTuple):
    """A verdict: in large letters, and in sentences below."""

    tone: str
    """`good`, `warn` or `bad`."""
    word: str
    details: Sequence[str]


def told(plate: Answer, registers: Sequence[str], day: str) -> list[Told]:
    """Return the verdicts about a plate: whether it is insured, and compliant; or why none is."""
    if "error" in plate:
        if not plate["registration"]:
            return [Told("warn", NOT_A_PLATE, [f"{plate['error']}."])]
        known = UNMENTIONED.format(", ".join(registers)) if registers else NO_REGISTER
        return [Told("warn", NOT_FOUND, [known])]
    insurance, compliance = plate["insurance"], plate["compliance"]
    insured, compliant = insurance.get("period", {}), compliance.get("period", {})
    # Of a period that fails, its first failing day counts.
    reasons = insured.get("reasons", compliance["reasons"])
    why = why_not_insured(reasons["insuranceValid"], insured.get("policy", plate["chosenPolicy"]))
    failed = compliant if "reasons" in compliant else compliance
    fails = _fails(failed, compliance)
    return [_told(_INSURANCE, insurance, [why], day), _told(_COMPLIANCE, compliance, fails, day)]


class _Question(NamedTuple):
    """What is asked about a vehicle: the verdicts, and the members of its answer."""

    good: str
    bad: str
    member: str
    until: str


_INSURANCE = _Question(INSURED, NOT_INSURED, "insured", "insuredUntil")
_COMPLIANCE = _Question(COMPLIANT, NOT_COMPLIANT, "compliant", "compliantUntil")


def _told(question: _Question, answer: Answer, why: Iterable[str], day: str) -> Told:
    period = answer.get("period", {})
    if "tooManyPolicies" in period:
        whether = f"whether {question.good.lower()}"
        return Told(
            "warn", NOT_JUDGED, [f"{whether}: {TOO_MANY_POLICIES} end on the first day or later"]
        )
    if "firstFailingDay" in period:
        start = f"from {in_words(period['firstFailingDay'], with_weekday=True)}"
        return Told("bad", question.bad, [start, *why])
    if not answer[question.member]:
        return Told("bad", question.bad, list(why))
    every = ["on every day"] if period else []
    return Told("good", question.good, [*every, end(answer, question.until, day)])


def end(answer: Answer, until_name: str, day: str) -> str:
    """Return until when an answer holds.

    Args:
        until_name: the member that has its last day.
    """
    if "tooManyPolicies" in answer:
        return f"later days are not judged: {TOO_MANY_POLICIES}"
    last_day = answer[until_name]
    return NO_END if last_day is None else until(last_day, day)


def why_not_insured(reason: str, policy: Answer | None) -> str:
    """Return why a vehicle is not insured.

    Args:
        policy: the one that comes closest, if there is one.
    """
    if policy and (ended := _ended(reason, policy)):
        return f"policy {policy['number']} {ended}"
    says_so = "a register says not insured, and " if reason == "none" else ""
    return f"{says_so}no policy is known"


def _fails(answer: Answer, dates: Answer) -> Iterator[str]:
    """Yield each check that fails, with its reason."""
    for check, title in CHECKS.items():
        reason = answer["reasons"][check]
        if answer["checks"][check]:
            continue
        if check == "insuranceValid":
            yield NOT_INSURED.lower()  # The verdict about insurance says why.
        elif check == "noOutstandingFines":
            yield f"{title}: {_fines_owed(dates)}"
        elif reason == "expired":
            yield f"{title}: ended on {in_words(_last_day(check, dates))}"
        else:
            yield f"{title}: {_FAILS.get((check, reason)) or reason_in_words(reason)}"


def _last_day(check: str, dates: Answer) -> str:
    last_day: str = dates["taxDue" if check == "roadTaxPaid" else "motExpiry"]
    return last_day


def _fines_owed(dates: Answer) -> str:
    count = dates["finesOutstanding"]
    return f"{'at least ' if count == 100 else ''}{count} owed now"


def fines_owed(plate: Answer) -> list[str]:
    """Return the fines that are owed, such as `70.00 GBP, PCN00001, 1 October 2026`.

    A fine that several registers have is one.
    """
    owed = [
        ", ".join(
            [
                f"{fine['amount']} {fine['currency']}",
                fine["reference"],
                *([in_words(fine["issuedOn"])] if fine["issuedOn"] else []),
            ]
        )
        for holding in plate["registers"]
        for fine in holding["fines"]
        if fine["outstanding"]
    ]
    found = list(dict.fromkeys(owed))
    more = len(found) - _FINES_SHOWN_MAX
    return found[:_FINES_SHOWN_MAX] + ([f"and {more:,} more"] if more > 0 else [])


def depends_on(check: str, plate: Answer, day: str) -> str:
    """Return the date or number that a check depends on; empty if there is none."""
    its, policy = plate["compliance"], plate["chosenPolicy"]
    is_good, reason = its["checks"][check], its["reasons"][check]
    if check == "noOutstandingFines":
        return "" if is_good else _fines_owed(its)
    if check == "insuranceValid":
        return end(plate["insurance"], "insuredUntil", day) if is_good else _ended(reason, policy)
    last_day = _last_day(check, its)
    text = NO_END if reason == "valid" else ""
    if reason == "not_due":
        text = f"first registered on {in_words(its['firstRegistered'])}"
    elif reason == "expired":
        text = f"ended on {in_words(last_day)}"
    elif is_good and last_day and (check, reason) != ("motValid", "exempt"):
        text = until(last_day, day)
    return text


def contradiction(check: str, plate: Answer) -> str:
    """Return which registers say the opposite of a check; empty if none does."""
    column = "insured" if check == "insuranceValid" else check
    registers = next(e["contradictedBy"] for e in plate["decidedBy"] if e["column"] == column)
    return f"But {opposite_in_words(registers)}." if registers else ""


def _ended(reason: str, policy: Answer) -> str:
    """Return when a policy ended or begins, if that is why a vehicle is not insured."""
    if reason == "expired":
        return f"ended on {in_words(policy['validTo'])}"
    if reason == "cancelled":
        return f"was cancelled on {in_words(policy['cancelledOn'])}"
    return f"begins on {in_words(policy['validFrom'])}" if reason == "future" else ""


def receipt(
    plate: Answer, verdicts: Sequence[Told], day: str, period: Period | None
) -> Iterator[tuple[str, str]]:
    """Yield the lines of a receipt about a plate, each with its name."""
    # Nobody reads more of a text that is no plate; the form takes 300,000 characters.
    asked, registration = plate["asked"][:100], plate["registration"]
    yield (
        PLATE,
        asked if registration in (None, asked) else f"{registration} ({ASKED_AS.format(asked)})",
    )
    if known := vehicle(plate):
        yield VEHICLE, known
    yield DAY, days(day, period)
    for each in verdicts:
        yield ANSWER, f"{each.word}: {'; '.join(each.details)}"
