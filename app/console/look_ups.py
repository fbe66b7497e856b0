"""Look-ups by people: one plate or a pasted list, for a day."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo

import falcon
import peewee

from app import clock
from app.accounts.usage.counts import PEOPLE
from app.audit.record import AuditError, Plate, Record, time_of
from app.config import SETTINGS, Config
from app.console.form_pages import RowlessForm
from app.console.forms import Field, Form, read_fields
from app.console.look_up_rows import Row, counts_of, rows_of
from app.console.rendering import ConsoleRequest, Values, in_words
from app.console.resources import LOOK_UP, PageError, Services, send_csv
from app.csv_cells import text_cell
from app.enquiries import ENQUIRY_CHARACTERS_MAX, choices_of, enquiry_text_fault
from app.people.plates import LimitReached, PlateLimits
from app.roles import Right
from app.storage.registers import find_unreadable, with_current_registers
from app.vehicles.answer_cells import Cells
from app.vehicles.audited import judged_plate, shown_plates
from app.vehicles.explanation import Document, document_of, explain
from app.vehicles.periods import DAYS_MAX, Period, period_fault
from app.vehicles.reader import BATCH_PLATES, Found, VehicleReader
from app.vehicles.records import DATED, Read, Records

_DELIMITER = ","


def _csv_lines(found: Sequence[Found], day: str, period: Period | None) -> Iterator[str]:
    """Yield lines with each plate as it was given, and the columns of `lookup --csv`."""
    cells, text = Cells(_DELIMITER, day, period), text_cell(_DELIMITER)
    yield f"plate{_DELIMITER}{cells.heading}\r\n"
    for each in found:
        yield f"{text(each.asked)}{_DELIMITER}{cells.of_plate(each)[1]}\r\n"


_EXPLAINED_MAX = 10
"""The most plates that are explained; more plates are shown in a table."""
_CHANGES_MAX = 2
"""How many confusable characters suggestions may change: a person can compare them."""
_ROWS_MAX = 200
_SEPARATORS = re.compile(r"[\r\n\t,;]+")
_FIELDS = (
    Field(
        "plates",
        "Plates",
        f"In any spelling. A list has one plate in each line, at most {BATCH_PLATES:,}.",
        characters_max=300_000,
        kind="lines",
    ),
    Field("day", "Day", "Today, if empty.", 10, False, kind="date"),
    Field("from", "From", "First day of a period.", 10, False, kind="date"),
    Field("to", "To", f"Last of at most {DAYS_MAX} days.", 10, False, kind="date"),
)
_DAYS = ("day", "from", "to")


def enquiry_fields(config: Config) -> tuple[Field, ...]:
    """Return the fields of what a person says about a look-up, for the audit trail (D165)."""
    reasons, size = config.lookup_reasons, ENQUIRY_CHARACTERS_MAX
    # An empty choice comes first, so that nobody gives a reason without choosing it.
    choices = ("", *choices_of(reasons)) if choices_of(reasons) else ()
    return (
        Field("reason", "Reason", "Why you ask.", size, bool(reasons), choices),
        Field("reference", "Reference", "A case number or the like.", size, False),
    )


def note_enquiry_faults(form: Form) -> None:
    """Note what is wrong with the reason and the reference of a form."""
    for name in ("reason", "reference"):
        fault = enquiry_text_fault(form[name]) if form[name] else None
        if fault:
            form.faults.setdefault(name, f"{name.capitalize()} {fault}.")


def _note_fault_of_days(form: Form) -> None:
    """Note what is wrong with the days of a form, if each of them exists."""
    if not form.faults.keys() & _DAYS:
        as_of, first, last = (form[name] or None for name in _DAYS)
        fault = period_fault(as_of, first, last, ("Day", "From", "To"))
        if fault:
            label, text = fault
            form.faults[label.lower()] = f"{label} {text}."


class LookUp(RowlessForm):
    """GET, POST /console/look-up. Answers with a CSV file if the field `as` is `csv`.

    Look-ups have the answers of the API. No account is charged for them: people have limits of
    their own (D192).

    SEC: plates are sent with POST only, so they are in no URL, log or history of a browser.
    """

    template = "look_up.html"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        config = services.config
        records = Records(services.engine, config.register_order, config.mot_first_years)
        self._reader = VehicleReader(records, config)
        self._limits = PlateLimits(services.engine, config)
        self.fields = (*_FIELDS, *enquiry_fields(config))

    def _require_trail(self, req: ConsoleRequest) -> None:
        """Raise PageError if the person may not look up without the audit trail (D190)."""
        if self.services.trail is None and not req.session.may(Right.READ):
            raise PageError(
                503,
                "You cannot look up now",
                "Clerks look up only while the audit trail is on, and it is off. The operator can "
                f"turn it on: {SETTINGS['audit'].variable}=on.",
            )

    def _values(self, req: ConsoleRequest, row: None) -> Values:
        self._require_trail(req)
        return _answers("", [], None)

    def _received(self, req: ConsoleRequest, row: None) -> Form:
        self._require_trail(req)
        form = super()._received(req, None)
        asked = _plates(form["plates"])
        if not asked:
            form.faults["plates"] = "Enter at least one plate."
        elif len(asked) > BATCH_PLATES:
            form.faults["plates"] = (
                f"A list can have {BATCH_PLATES:,} plates; this one has {len(asked):,}. On the "
                "host, “verifyd lookup --csv” answers files of any size."
            )
        note_enquiry_faults(form)
        _note_fault_of_days(form)
        return form

    def _accept(self, req: ConsoleRequest, resp: falcon.Response, row: None, form: Form) -> None:
        req.context.caller = PEOPLE  # Usage counts the answer (D192).
        asked = len(_plates(form["plates"]))
        try:
            with self._limits.counted(req.session, asked):
                self._answer(req, resp, form)
        except LimitReached as reached:
            resp.status = falcon.HTTP_429
            resp.set_header("Retry-After", str(max(1, reached.next_at - clock.now())))
            refusal = _limit_text(reached, asked, self.config.timezone)
            values = {**_answers("", [], None), "form": form, "refusal": refusal}
            self.show(req, resp, self.template, values)

    def _answer(self, req: ConsoleRequest, resp: falcon.Response, form: Form) -> None:
        period = Period(form["from"], form["to"]) if form["from"] else None
        day = self._reader.day(period.first if period else form["day"] or None)
        is_csv = read_fields(req).get("as") == "csv"
        try:
            found, shown, registers, document = self._look_up(
                _plates(form["plates"]), day, period, explains=not is_csv
            )
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            register = find_unreadable(self.engine)
            if register is None:
                raise
            raise PageError(
                503,
                "A register cannot be read",
                f"Look-ups fail until the register {register.name} is restored, or dropped and "
                "loaded again.",
                back=(LOOK_UP,),
            ) from error
        self._record(req, form, period, shown, registers)
        req.context.vehicles = len(found)
        if is_csv:
            days = "-to-".join(period or [day])
            send_csv(resp, f"look-up-{days}", _csv_lines(found, day, period))
        else:
            rows = rows_of(found, day, period)
            values = {**_answers(day, rows, document, period), "form": form}
            self.show(req, resp, self.template, values)

    def _look_up(
        self, asked: Sequence[str], day: str, period: Period | None, *, explains: bool
    ) -> tuple[list[Found], Iterator[Plate], Read, Document | None]:
        """Return the answers, what the trail has of them, and the registers read.

        If they are to be explained and few, also returns an explanation, which has suggestions.
        """
        engine, reader = self.engine, self._reader
        if not explains or len(asked) > _EXPLAINED_MAX:
            found, read = with_current_registers(
                engine, lambda state: reader.look_up(state, asked, day, DATED)
            )
            return found, (judged_plate(each, day, period) for each in found), read, None
        explained = explain(engine, reader, asked, day, period, _CHANGES_MAX)
        found = [each.found for each in explained.plates]
        shown = shown_plates(explained, day, period)
        return found, shown, explained.registers, document_of(explained, day, period)

    def _record(
        self,
        req: ConsoleRequest,
        form: Form,
        period: Period | None,
        shown: Iterable[Plate],
        registers: Read,
    ) -> None:
        """Record the look-up before its answers are shown. Raises PageError if that fails."""
        trail = self.services.trail
        if trail is None:
            return
        record = Record(
            time=time_of(clock.now_ns()),
            request_id=req.context.request_id,
            operation="console",
            as_of=form["day"] or None,
            first_day=form["from"] or None,
            last_day=form["to"] or None,
            reason=form["reason"] or None,
            reference=form["reference"] or None,
            user=req.session.name,
            plates=list(shown),
            registers=registers,
        )
        try:
            trail.append(record)
        except AuditError as error:
            raise PageError(
                503,
                "The look-up cannot be recorded",
                "Look-ups are answered only if the audit trail has them. “verifyd check” says what "
                "is wrong.",
                back=(LOOK_UP,),
            ) from error


def _limit_text(reached: LimitReached, asked: int, zone: tzinfo) -> str:
    """Return why a look-up of so many plates is refused, and when the next one is possible."""
    next_at = datetime.fromtimestamp(reached.next_at, zone)
    when = f"{in_words(next_at.date().isoformat())} at {next_at:%H:%M} ({zone})"
    if not reached.left:
        return f"You have used your {reached.limit:,} plates of today. Look up again on {when}."
    return (
        f"This look-up has {asked:,} plates, and you have {reached.left:,} of your "
        f"{reached.limit:,} left today. Shorten it, or look up again on {when}."
    )


def _answers(
    day: str, rows: Sequence[Row], document: Document | None, period: Period | None = None
) -> Values:
    """Return the values of the page for answers; for no answers before plates were sent."""
    return {
        "day": day,
        "period": period,
        "rows": rows[:_ROWS_MAX],
        "counts": counts_of(rows),
        "total": len(rows),
        "document": document,
    }


def _plates(text: str) -> list[str]:
    """Split a text into plates; they can contain spaces."""
    return [plate for each in _SEPARATORS.split(text) if (plate := each.strip())]
