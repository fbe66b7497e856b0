"""Look-ups by people: one plate, a pasted list or table, for a day or a period."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from typing import NamedTuple, Self

import falcon
import peewee

from app import clock
from app.accounts.usage.counts import PEOPLE
from app.audit.record import Plate, time_of
from app.config import SETTINGS, Config
from app.console import look_up_texts as texts
from app.console.forms import Field, Form
from app.console.look_up_ages import ages_by_register, ages_of, doubts_of
from app.console.look_up_missing import missing_on
from app.console.look_up_rows import counts_of, parts_of, rows_of
from app.console.pasted_plates import are_several, plates_of, table_of
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import LOOK_UP, PageError, Resource, Services, send_csv
from app.people.plates import LimitReached, PlateLimits
from app.registers.load_times import KnownLoadTimes
from app.settings.enquiries import ENQUIRY_CHARACTERS_MAX, choices_of, enquiry_text_fault
from app.settings.roles import Right
from app.storage.registers import find_unreadable, read_state
from app.storage.versions import tells_unknown
from app.text import text_cell
from app.vehicles.answer_cells import Cells
from app.vehicles.audited import judged_plate, rule_of, shown_plates
from app.vehicles.contradictions import Contradicted, look_up_contradicted
from app.vehicles.deciding import LoadTimes
from app.vehicles.document import Document, document_of
from app.vehicles.explanation import Explained, explain
from app.vehicles.periods import Period, period_fault
from app.vehicles.reader import BATCH_PLATES, FoundPlate, VehicleReader
from app.vehicles.records import Read, Records

_EXPLAINED_MAX = 10
"""The most plates that are explained; more plates are shown in a table."""
_CHANGES_MAX = 2
"""How many confusable characters suggestions may change: a person can compare them."""
_ROWS_MAX = 200
_TEXT_CHARACTERS_MAX = 300_000
_FIELDS = (
    Field("plates", texts.PLATES, texts.PLATES_HINT, _TEXT_CHARACTERS_MAX, kind="lines"),
    Field("day", texts.DAY, texts.DAY_HINT, 10, False, kind="date"),
    Field("from", texts.FROM, texts.FROM_HINT, 10, False, kind="date"),
    Field("to", texts.TO, texts.TO_HINT, 10, False, kind="date"),
)
_DAYS = ("day", "from", "to")


def enquiry_fields(config: Config) -> tuple[Field, ...]:
    """Return the fields of what a person says about a look-up, for the audit trail (D165)."""
    reasons, size = config.lookup_reasons, ENQUIRY_CHARACTERS_MAX
    # An empty choice comes first, so that nobody gives a reason without choosing it.
    choices = ("", *choices_of(reasons)) if choices_of(reasons) else ()
    return (
        Field("reason", texts.REASON, texts.REASON_HINT, size, bool(reasons), choices),
        Field("reference", texts.REFERENCE, texts.REFERENCE_HINT, size, False),
    )


def note_enquiry_faults(form: Form) -> None:
    """Note what is wrong with the reason and the reference of a form."""
    for name, label in (("reason", texts.REASON), ("reference", texts.REFERENCE)):
        fault = enquiry_text_fault(form[name]) if form[name] else None
        if fault:
            form.faults.setdefault(name, f"{label} {fault}.")


class LookUpForm(Form):
    """The form of the page, with the plates that it asks for."""

    def __init__(self, fields: Iterable[Field], values: Mapping[str, str] | None = None) -> None:
        super().__init__(fields, values)
        sent, text = values or {}, self["plates"]
        self.purpose = sent.get("as", "")
        """`csv` for a file, `change` to change the plates, empty to see answers."""
        self.keeps_reference = "keep" in sent
        self.table = table_of(text) if len(text) <= _TEXT_CHARACTERS_MAX else None
        self.is_chosen = "column" in sent
        self.column, self.has_heading = sent.get("column", ""), "heading" in sent
        """The choice of a column of the table, and whether its first line has no plates."""
        if self.table is None:
            self.plates = plates_of(text)
            return
        if not self.is_chosen:
            self.column, self.has_heading = self.table.likely_choice(), self.table.looks_headed()
        self.plates = self.table.plates(self.column, has_heading=self.has_heading)

    def field(self, name: str) -> Field:
        """Return a field of the form."""
        return next(each for each in self.fields if each.name == name)

    @property
    def needs_choice(self) -> bool:
        """Whether the person has to choose a column before anything is looked up."""
        return self.table is not None and not self.is_chosen

    def note_faults(self) -> None:
        """Note the faults of the plates, the reason, the reference and the days."""
        if self.table is not None and self.is_chosen and not self.plates:
            self.faults["column"] = texts.CHOOSE_COLUMN
        elif not self.needs_choice and not self.plates:
            self.faults["plates"] = texts.NO_PLATE
        elif not self.needs_choice and len(self.plates) > BATCH_PLATES:
            self.faults["plates"] = texts.TOO_MANY.format(len(self.plates))
        note_enquiry_faults(self)
        if not self.faults.keys() & _DAYS:  # Each of them exists.
            as_of, first, last = (self[name] or None for name in _DAYS)
            fault = period_fault(as_of, first, last, (texts.DAY, texts.FROM, texts.TO))
            if fault:
                label, text = fault
                name = next(each.name for each in self.fields if each.label == label)
                self.faults[name] = f"{label} {text}."

    def next(self) -> Self:
        """Return the form for the next look-up.

        SEC: the reference stays only if the person wants that: otherwise a look-up would be
        recorded under the claim before.
        """
        kept = {"plates": ""} | ({"keep": "on"} if self.keeps_reference else {"reference": ""})
        return type(self)(self.fields, {**self.values, **kept})


def _csv_lines(
    found: Sequence[FoundPlate],
    contradictions: Mapping[str, Contradicted],
    cells: Cells,
) -> Iterator[str]:
    """Yield lines with each plate as it was given, and the columns of `lookup --csv`."""
    text = text_cell(cells.delimiter)
    yield f"plate{cells.delimiter}{cells.heading}\r\n"
    for each in found:
        answer = cells.of_plate(each, contradictions)[1]
        yield f"{text(each.asked)}{cells.delimiter}{answer}\r\n"


def _document_of(explained: Explained, day: str, period: Period | None, zone: tzinfo) -> Document:
    """Return the document with what is missing in each answer, and how old its data is."""
    document = document_of(explained, day, period)
    document["ages"] = ages_by_register(explained.times, zone)
    for plate, each in zip(document["plates"], explained.plates, strict=True):
        record = each.found.record
        if record is not None:
            insured, compliant = (
                plate[each].get("period", {}).get("firstFailingDay", day)
                for each in ("insurance", "compliance")
            )
            days = (insured, compliant)
            plate["missing"] = {then: missing_on(record, then) for then in (day, *days)}
            plate["ages"] = ages_of(record, days, explained.times, zone)
    return document


class _LookedUp(NamedTuple):
    """Plates that were looked up, in the order in which they were given."""

    found: Sequence[FoundPlate]
    contradictions: Mapping[str, Contradicted]
    recorded: Iterator[Plate]
    """What the trail has."""
    registers: Read
    times: LoadTimes
    explained: Explained | None = None
    """Has suggestions, too; None if the answers are not explained."""


class LookUpPage(Resource):
    """Look-ups by people; a CSV file if the field `as` is `csv`.

    The answers are those of the API. No account is charged for them: people have limits of their
    own.

    SEC: plates are sent with POST only, so they are in no URL, log or history of a browser.
    """

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        config = services.config
        engine, times = services.engine, KnownLoadTimes(services.engine)
        self._reader = VehicleReader(Records(engine, config), config, times.of_state)
        self._limits = PlateLimits(services.engine, config)
        self._fields = (*_FIELDS, *(each._replace(hint="") for each in enquiry_fields(config)))

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/look-up."""
        self._require_trail(req)
        self._show(req, resp, LookUpForm(self._fields))

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/look-up. Shows answers, the question about a table, or the form again."""
        self._require_trail(req)
        form = LookUpForm.received(req, self._fields)
        if form.purpose == "change":
            self._show(req, resp, form)
            return
        form.note_faults()
        if not form.is_sound:
            resp.status = falcon.HTTP_422
        if form.needs_choice or not form.is_sound:
            self._show(req, resp, form)
            return
        req.context.caller = PEOPLE  # Usage counts the answer.
        try:
            with self._limits.counted(req.session, len(form.plates)):
                self._answer(req, resp, form)
        except LimitReached as reached:
            self._refuse(req, resp, form, reached)

    def _require_trail(self, req: ConsoleRequest) -> None:
        """Raise PageError if the person may not look up without the audit trail.

        Each answer to a clerk is about a person who did not ask for it, and nobody else would see
        who looked. The other roles run the service.
        """
        if self.services.trail is None and not req.session.may(Right.READ):
            heading, text = texts.WITHOUT_TRAIL
            raise PageError(503, heading, text.format(variable=SETTINGS["audit"].variable))

    def _show(
        self,
        req: ConsoleRequest,
        resp: falcon.Response,
        form: LookUpForm,
        asked: LookUpForm | None = None,
        answers: Values | None = None,
        refusal: str = "",
    ) -> None:
        values = {"form": form, "asked": asked, "answers": answers, "refusal": refusal}
        self.show(req, resp, "look_up.html", values | {"advice": self.config.lookup_advice})

    def _refuse(
        self, req: ConsoleRequest, resp: falcon.Response, form: LookUpForm, reached: LimitReached
    ) -> None:
        """Show the form again, and when the person can look up next."""
        resp.status = falcon.HTTP_429
        resp.set_header("Retry-After", str(max(1, reached.next_at - clock.now())))
        next_at = datetime.fromtimestamp(reached.next_at, self.config.timezone)
        refusal = texts.refusal(len(form.plates), reached.left, reached.limit, next_at)
        self._show(req, resp, form, refusal=refusal)

    def _answer(self, req: ConsoleRequest, resp: falcon.Response, form: LookUpForm) -> None:
        period = Period(form["from"], form["to"]) if form["from"] else None
        day = self._reader.day(period.first if period else form["day"] or None)
        is_csv = form.purpose == "csv"
        try:
            look_up = self._look_up(form.plates, day, period, explains=not is_csv)
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            register = find_unreadable(self.engine)
            if register is None:
                raise
            heading, text = texts.UNREADABLE
            text = text.format(register=register.name)
            raise PageError(503, heading, text, back=(LOOK_UP,)) from error
        found, against, explained = look_up.found, look_up.contradictions, look_up.explained
        time, rule = time_of(clock.now_ns()), rule_of(found)
        self.record(
            req,
            PageError(503, *texts.UNRECORDED, back=(LOOK_UP,)),
            time=time,
            operation="console",
            as_of=form["day"] or None,
            first_day=form["from"] or None,
            last_day=form["to"] or None,
            reason=form["reason"] or None,
            reference=form["reference"] or None,
            rule=rule,
            plates=look_up.recorded,
            registers=look_up.registers,
        )
        req.context.vehicles = len(found)
        rows = rows_of(found, against, day, period)
        is_any_known = any(each.record for each in found)
        tells = rule is not None if is_any_known else tells_unknown(self.engine)
        if is_csv:
            days = "-to-".join(period or [day])
            ordered = [found[row.place - 1] for row in rows]
            cells = Cells(",", day, period, tells_unknown=tells)
            send_csv(resp, f"look-up-{days}", _csv_lines(ordered, against, cells))
            return
        zone = self.config.timezone
        document = explained and _document_of(explained, day, period, zone)
        unknown = (each.asked for each in found if each.record is None)
        answers = {
            "day": day,
            "period": period,
            # Those of a long list; of a short one, the group of all plates.
            "parts": parts_of(rows, _ROWS_MAX, tells_unknown=tells)[-1 if document else 0 :],
            "counts": counts_of(rows, tells_unknown=tells),
            "total": len(rows),
            "document": document,
            "time": time,
            "unseparated": next(filter(are_several, unknown), ""),
            "data": texts.data_of(ages_by_register(look_up.times, zone)),
            "doubts": doubts_of(self.engine, self.config),
            "tells_unknown": tells,
        }
        self._show(req, resp, form.next(), form, answers)

    def _look_up(
        self, asked: Sequence[str], day: str, period: Period | None, *, explains: bool
    ) -> _LookedUp:
        """Look plates up; explain the answers if that is wanted and they are few."""
        engine, reader = self.engine, self._reader
        if not explains or len(asked) > _EXPLAINED_MAX:
            found, read, against = look_up_contradicted(engine, reader, asked, day)
            judged = (judged_plate(each, day, period) for each in found)
            return _LookedUp(found, against, judged, read, reader.load_times(read_state(engine)))
        explained = explain(engine, reader, asked, day, period, _CHANGES_MAX)
        return _LookedUp(
            [each.found for each in explained.plates],
            {
                each.found.registration: each.contradicted
                for each in explained.plates
                if each.found.registration
            },
            shown_plates(explained, day, period),
            explained.registers,
            explained.times,
            explained,
        )
