"""Changes the watches of clients, and records what they will be told before they are (D187)."""

from collections.abc import Mapping, Sequence

from app.audit.record import Plate, Record
from app.serve.http.context import Request, caller_of
from app.serve.http.enquiry import Enquiry
from app.serve.http.unit import Unit
from app.storage.engine import Engine
from app.storage.registers import read_state
from app.vehicles.audited import record_of
from app.vehicles.reader import VehicleReader
from app.vehicles.records import Read
from app.watches.repository import Edit, StoredWatch, Terms, Watches, WatchesChange
from app.watches.sweep import WANTED
from app.watches.told import ToldChecks, told_by_plate
from app.watches.words import told_plate


class Watching:
    """Changes the watches of clients.

    Args:
        sandbox: looks up for accounts whose plan is a sandbox.
        unit: records new watches, if the audit trail is on.
    """

    def __init__(
        self, engine: Engine, reader: VehicleReader, sandbox: VehicleReader, unit: Unit[Record]
    ) -> None:
        self._engine = engine
        self._reader = reader
        self._sandbox = sandbox
        self._unit = unit
        self.watches = Watches(engine)

    def today(self) -> str:
        """Return today as an ISO date."""
        return self._reader.day(None)

    def change(self, req: Request, operation: str, enquiry: Enquiry, edit: Edit) -> WatchesChange:
        """Change watches of the caller together, and count the new ones (D125).

        States that the audit trail does not have are recorded.

        There is a record for each reference; `enquiry` has that of watches without their own.

        Raises Problem service_unavailable if they cannot be recorded; then nothing has changed.
        """
        caller, day = caller_of(req), self.today()
        reader = self._sandbox if caller.is_sandbox else self._reader
        registers: Read = {}

        def look(plates: Sequence[str]) -> Mapping[str, ToldChecks]:
            nonlocal registers
            found, registers = reader.look_up(read_state(self._engine), plates, day, WANTED)
            return told_by_plate(found, day)

        def tell(unrecorded: Sequence[Terms], told: Mapping[str, ToldChecks]) -> None:
            plates: dict[str | None, list[Plate]] = {}
            for terms in unrecorded:
                plate = told_plate(terms.registration, told[terms.registration])
                plates.setdefault(terms.reference or enquiry.reference, []).append(plate)
            records = (
                record_of(req, operation, enquiry._replace(reference=reference), some, registers)
                for reference, some in plates.items()
            )
            self._unit.record_at_once(req, *records)

        telling = tell if self._records(req) else None
        changed = self.watches.change_watches(
            caller.account_id, edit, caller.watches_max, look, day, telling
        )
        req.context.vehicles = len(changed.created)
        return changed

    def record_shown(self, req: Request, operation: str, watches: Sequence[StoredWatch]) -> None:
        """Record states that the audit trail does not have, before the caller reads them (D187).

        They were stored while it was off, or by a former program. The next sweep ends that.

        Raises Problem service_unavailable if they cannot be recorded.
        """
        unrecorded = [e for e in watches if not e.is_recorded] if self._records(req) else ()
        if unrecorded:
            records = (
                record_of(
                    req,
                    operation,
                    Enquiry(each.terms.reason, each.terms.reference),
                    [told_plate(each.terms.registration, each.told)],
                    {},
                )
                for each in unrecorded
            )
            self._unit.record_at_once(req, *records)

    def _records(self, req: Request) -> bool:
        """Tell whether the audit trail must have the states that answers show (D182)."""
        return self._unit.is_recording and not caller_of(req).is_sandbox
