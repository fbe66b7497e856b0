"""Looks vehicles up for clients, and records each answer before it is sent (D125).

All operations on vehicles pass here, single and bulk alike.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import msgspec

from app import clock
from app.audit.record import AuditError, Plate, Record, invalid_plate, time_of
from app.audit.trail import Trail
from app.errors import RETRY_AFTER_SECONDS, Problem
from app.serve.http.context import Request, caller_of
from app.serve.http.enquiry import NO_ENQUIRY, Enquiry, enquiry_of
from app.serve.http.problems import FailureLog
from app.serve.http.unit import Unit
from app.serve.sandbox_errors import refuse_plates
from app.vehicles import facts
from app.vehicles.answer_shapes import ToldVerdict
from app.vehicles.answers import unknown_checks
from app.vehicles.compliance import judge, judge_insurance
from app.vehicles.deciding import LoadTimes
from app.vehicles.explanation import Explained
from app.vehicles.facts import DESCRIPTION, WantedFields
from app.vehicles.periods import Period, Question, judge_period
from app.vehicles.reader import FoundPlate, VehicleReader
from app.vehicles.records import Read
from app.vehicles.registration import canonical_registration
from app.vehicles.suggestions import suggestions

Operation = Literal["insurance", "bulk_insurance", "compliance", "bulk_compliance"]
_ABOUT_INSURANCE = ("insurance", "bulk_insurance")
_BULKS = ("bulk_insurance", "bulk_compliance")
# PERF: to make one takes 0.5 us of each look-up.
_WANTED: Mapping[Operation, WantedFields] = {
    "insurance": WantedFields(vehicle=True, papers=False),
    "bulk_insurance": WantedFields(vehicle=False, papers=False),
    "compliance": WantedFields(vehicle=False, papers=True),
    "bulk_compliance": WantedFields(vehicle=False, papers=True),
}
"""What the answers without further members need."""
_log = logging.getLogger("verifyd.audit")


class LookUp(msgspec.Struct, frozen=True, gc=False):
    """A look-up of a client, with its results."""

    operation: Operation
    enquiry: Enquiry
    question: Question
    day: str
    """ISO date to judge by."""
    found: Sequence[FoundPlate]
    registers: Read
    times: LoadTimes = {}
    """Of the loads of these registers, if the question asks for details."""
    suggested: Sequence[facts.Record] | None = None
    """The known plates that a 404 shows; None if the plan has no suggestions, or after a hit."""


class Recorder:
    """Records look-ups in the audit trail, before their answers are sent."""

    def __init__(self, trail: Trail) -> None:
        self._trail = trail
        self._failures = FailureLog(_log, "audit trail", "look-ups can be recorded again")

    def record(self, look_ups: Sequence[tuple[Request, Record]]) -> None:
        """Append records together.

        Raises Problem service_unavailable if that is impossible: then nothing may be answered.
        """
        try:
            self._trail.append(*(record for _, record in look_ups))
        except AuditError as error:
            self._failures.failed(str(error), look_ups[0][0].context.request_id)
            detail = f"The look-up cannot be recorded now. Retry in {RETRY_AFTER_SECONDS} s."
            raise Problem("service_unavailable", detail) from None
        self._failures.worked()


class LookUps:
    """The look-ups of clients.

    Args:
        sandbox: answers accounts whose plan is a sandbox.
        unit: records look-ups, if the audit trail is on.
    """

    def __init__(
        self,
        reader: VehicleReader,
        sandbox: VehicleReader,
        unit: Unit[Record],
    ) -> None:
        self._reader = reader
        self._sandbox = sandbox
        self._unit = unit

    def look_up(
        self,
        req: Request,
        operation: Operation,
        asked: Sequence[str],
        question: Question,
    ) -> LookUp:
        """Look plates up with one statement, or in the sandbox.

        Args:
            asked: plates as they were given.

        Raises Problem: those of enquiry_of, or what a plate of the sandbox provokes.
        """
        caller = caller_of(req)
        # PERF: most plans do not ask, and a call costs 0.2 us.
        enquiry = NO_ENQUIRY if caller.enquiry == "off" else enquiry_of(req)
        reader = self._reader
        if caller.is_sandbox:
            refuse_plates(operation, map(canonical_registration, asked))
            reader = self._sandbox
        day = reader.day(question.named_day)
        wanted = _WANTED[operation]
        if question.asks_more:
            describes = wanted.vehicle or (question.details and operation in _BULKS)
            wanted = WantedFields(describes, wanted.papers, dates=True)
        found, read = reader.look_up(caller.registers, asked, day, wanted)
        times = reader.load_times(caller.registers) if question.details else {}
        return LookUp(operation, enquiry, question, day, found, read, times)

    def with_suggestions(self, req: Request, look_up: LookUp, unknown: str) -> LookUp:
        """Return a look-up of an unknown plate with the suggestions for it, if the plan has any.

        They take one statement more.
        """
        caller = caller_of(req)
        if caller.suggest == "off":
            return look_up
        reader = self._sandbox if caller.is_sandbox else self._reader
        registers = dict(look_up.registers)

        def find(plates: Sequence[str]) -> list[FoundPlate]:
            found, read = reader.look_up(caller.registers, plates, look_up.day, DESCRIPTION)
            registers.update(read)
            return found

        suggested = suggestions([unknown], 1, find)[unknown]
        return msgspec.structs.replace(look_up, suggested=suggested, registers=registers)

    def record(self, req: Request, look_up: LookUp, told: Iterable[ToldVerdict]) -> None:
        """Record the answer, if the audit trail is on, and count its vehicles.

        Answers of the sandbox are not recorded (D182).

        Args:
            told: for each plate whether it is insured or compliant, on the day or on every day of
                the period; ignored for unknown plates.

        Raises as `Unit.add_record` does.
        """
        if self._unit.is_recording and not caller_of(req).is_sandbox:
            self._unit.add_record(req, _record(req, look_up, told))
        req.context.vehicles = len(look_up.found) + len(look_up.suggested or ())


def _record(req: Request, look_up: LookUp, told: Iterable[ToldVerdict]) -> Record:
    plates = _plates(look_up, told)
    if look_up.suggested:
        plates += map(suggested_plate, look_up.suggested)
    record = record_of(req, look_up.operation, look_up.enquiry, plates, look_up.registers)
    record.rule = rule_of(look_up.found)
    record.as_of = look_up.question.as_of
    if look_up.question.period is not None:
        record.first_day, record.last_day = look_up.question.period
    return record


def record_of(
    req: Request, operation: str, enquiry: Enquiry, plates: list[Plate], registers: Read
) -> Record:
    """Return the record of what a request tells about plates today."""
    caller = caller_of(req)
    record = Record(
        time=time_of(clock.now_ns()),
        request_id=req.context.request_id,
        account=caller.account,
        key=caller.key_id,
        operation=operation,
        reason=enquiry.reason,
        reference=enquiry.reference,
        user=enquiry.user,
        plates=plates,
        registers=registers,
    )
    if caller.only or caller.networks:
        record.only, record.networks = caller.restrictions
    return record


def rule_of(found: Iterable[FoundPlate]) -> int | None:
    """Return the rule of the answers about plates, as a record has it."""
    # PERF: all records of a look-up have a basis, or none has; a bulk need not be searched.
    known = next((each.record for each in found if each.record), None)
    return 2 if known and known.basis else None


def _plates(look_up: LookUp, told: Iterable[ToldVerdict]) -> list[Plate]:
    pairs = zip(look_up.found, told, strict=True)
    # PERF: without a call for each plate, a bulk of 1,000 takes 50 us and not 130.
    if look_up.operation in _ABOUT_INSURANCE:
        return [
            unanswered_plate(each)
            if each.record is None
            else Plate(each.record.registration, True, verdict, None, unknown or ())
            for each, (verdict, unknown) in pairs
        ]
    return [
        unanswered_plate(each)
        if each.record is None
        else Plate(each.record.registration, True, None, verdict, unknown or ())
        for each, (verdict, unknown) in pairs
    ]


def judged_plate(found: FoundPlate, day: str, period: Period | None = None) -> Plate:
    """Return the entry of a plate for which both verdicts are shown.

    Args:
        period: whose verdicts are shown, in place of those of the day.
    """
    record = found.record
    if record is None:
        return unanswered_plate(found)
    if period is not None:
        insured, _, is_known = judge_period(record, period, judge_insurance)
        compliant, _, is_compliance_known = judge_period(record, period, judge)
        unknown: tuple[str, ...] = () if is_compliance_known else ("compliant",)
    else:
        judgement = judge(record, day)
        insured, compliant = judgement.insurance.is_good, judgement.is_compliant
        is_known, unknown = judgement.insurance.is_known, unknown_checks(judgement) or ()
    if not is_known:
        unknown = ("insured", *unknown)
    return Plate(record.registration, True, insured, compliant, unknown)


def shown_plates(explained: Explained, day: str, period: Period | None) -> Iterator[Plate]:
    """Yield the entries of explained plates, each followed by those of its suggestions."""
    for each in explained.plates:
        yield judged_plate(each.found, day, period)
        yield from map(suggested_plate, each.suggested)


def suggested_plate(record: facts.Record) -> Plate:
    """Return the entry of a plate that is shown in place of one that is not known."""
    return Plate(record.registration, found=True, suggested=True)


def unanswered_plate(found: FoundPlate) -> Plate:
    """Return the entry of a plate that is not known, or of a text that is no registration."""
    if found.registration is None:
        return invalid_plate(found.asked)
    return Plate(found.registration, found=False)
