"""The labels, dates and plurals of the look-up page.

Its sentences about one plate are in `look_up_sentences`. Two modules with the same names in another
language are a translation. Sentences about a wrong field or an invalid plate, and why a register
decided, are those of the forms, the API and `verifyd lookup`. What every page has, such as the
button to sign out, is in `layout.html`.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, tzinfo

from app.clock import parse_iso_date
from app.text import counted as counted_noun
from app.vehicles.facts import POLICIES_MAX
from app.vehicles.periods import DAYS_MAX, Period
from app.vehicles.reader import BATCH_PLATES

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
NOT_KNOWN = "Not known"
INSURANCE, COMPLIANCE = "Insurance", "Compliance"
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
DATA, NOTE = "Data", "Note"
HELD = "A load of the register {} is held: newer data waits for a decision."
KINDS = {"vehicles": "vehicles", "policies": "policies", "fines": "fines"}
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
DAYS = ("motExpiry", "firstRegistered", "taxDue")
"""Those of them that are ISO dates."""
CHECKS = {
    "insuranceValid": "Insurance",
    "motValid": "MOT",
    "roadTaxPaid": "Road tax",
    "noOutstandingFines": "Fines",
}

# The table of a list.
ROW_COLUMNS = ("Plate", "Next lapse", "Insurance", "Compliance", "Fails", "Vehicle")
ROW_COLUMNS_UNKNOWN = (*ROW_COLUMNS[:4], "Fails, or is not known", ROW_COLUMNS[5])
"""The titles if answers tell what is not known."""
ROW_CHECKS = ("insurance", "MOT", "road tax", "fines")
LAPSES, LAPSES_THEN, FROM_DAY = "{} until", "then {} until", "from"
ROW_INSURED, ROW_COMPLIANT, NO_ANSWER = "insured", "compliant", "No answer"
ROW_NOT_INSURED, ROW_NOT_COMPLIANT, ROW_NOT_JUDGED = "not insured", "not compliant", "not judged"
ROW_NOT_KNOWN = "not known"
SORTED = (
    "What fails comes first; then the next lapse, which is the last day on which insurance, MOT or "
    "road tax is still in order. What is not known follows."
)
SORTED_UNKNOWN = f"{SORTED} Plates without an answer come last."
"""The order if answers tell what is not known."""
FIRST_OF = "These are the first {:,}. The CSV file has all plates, in this order."
FAILING, LAPSING, ALL = "Failing", "Lapsing within 30 days", "All"
NO_PLATE_FOUND = "Not found or invalid"
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
_MONTHS = (
    "January February March April May June July August September October November December".split()
)
_ISO_DAY = re.compile(r"(?<!policy )(?<![^ (])\d{4}-\d\d-\d\d(?![^ ,:;)])", re.ASCII)
"""An ISO date in a sentence. The number of a policy can look like one, or have one in it."""
_ENTRY_CHARACTERS_MAX = 60
_WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()


def in_words(text: str, *, with_weekday: bool = False) -> str:
    """Return an ISO date as people write it, such as `4 August 2027`."""
    day = date.fromisoformat(text)
    words = f"{day.day} {_MONTHS[day.month - 1]} {day.year}"
    return f"{_WEEKDAYS[day.weekday()]}, {words}" if with_weekday else words


def with_days_in_words(text: str) -> str:
    """Return a text in which ISO dates are written as people write them."""
    return _ISO_DAY.sub(
        lambda found: in_words(found[0]) if parse_iso_date(found[0]) else found[0], text
    )


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
    return counted_noun(count, "plate")


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
    not_known = f"{NOT_KNOWN}: {counts['not_known']:,}. " if "not_known" in counts else ""
    return (
        f"{total:,} plates: {counts['found']:,} found, {counts['not_found']:,} not found, "
        f"{counts['invalid']:,} invalid. Insured{every}: {counts['insured']:,}. "
        f"Compliant{every}: {counts['compliant']:,}. Failing: {counts['failing']:,}. {not_known}"
        f"Lapsing within 30 days{of}: {counts['soon']:,}."
    )


def separated_by_blanks(entry: str) -> str:
    """Return the hint that an entry of a list seems to be several plates."""
    shown = entry if len(entry) <= _ENTRY_CHARACTERS_MAX else f"{entry[:_ENTRY_CHARACTERS_MAX]}..."
    return (
        f"“{shown}” counts as one plate, because plates can contain spaces. If these are several, "
        "write each on a line of its own, or put commas between them."
    )


def vehicle_in_words(
    make: str | None, model: str | None, year: int | None, color: str | None = None
) -> str:
    """Return what is known of a vehicle, such as `Ford Focus, 2012, Blue`."""
    name = " ".join(each for each in (make, model) if each is not None)
    known = (name or None, year, color)
    return ", ".join(str(each) for each in known if each is not None)


def reason_in_words(reason: str) -> str:
    """Return the reason of a check as people read it."""
    return _REASONS.get(reason) or reason.replace("_", " ")


def check_not_known(check: str, why: Sequence[str]) -> str:
    """Return that the outcome of a check is not known, and why, such as `MOT not known: ...`."""
    return ": ".join(filter(None, (f"{CHECKS[check]} not known", "; ".join(why))))


def ages(loaded: Mapping[str, str]) -> str:
    """Return how old data is, such as `policies of 26 November 2026, fines of 1 November 2026`.

    Args:
        loaded: the day (ISO date) of each kind.
    """
    kinds: dict[str, list[str]] = {}
    for kind, name in KINDS.items():
        if kind in loaded:
            kinds.setdefault(loaded[kind], []).append(name)
    return ", ".join(f"{_listed(names)} of {in_words(day)}" for day, names in kinds.items())


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def data_of(registers: Mapping[str, Mapping[str, str]]) -> str:
    """Return how old the data of each register is, by its name."""
    return "; ".join(f"{name}: {ages(loaded)}" for name, loaded in registers.items())


def stale(register: str, loaded: str) -> str:
    """Return that a register is older than the operator allows."""
    return f"The register {register} is stale: it was last loaded on {in_words(loaded)}."
