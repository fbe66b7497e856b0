"""Files of a month of nights: four changing sources, and forty ways to damage a file."""

import gzip
import io
import json
import random
import zipfile
from collections.abc import Callable, Mapping
from datetime import date, timedelta
from typing import NamedTuple

from app.clock import shifted_day

RDW_OPTIONS = "--mode replace --format rdw-csv"
FIRST_DAY = date(2026, 1, 1)
_MAKES = ("FORD", "OPEL", "VOLVO", "FIAT", "SKODA")
_COLOURS = ("ROOD", "GRIJS", "WIT", "BLAUW")


class Car(NamedTuple):
    """A vehicle as a source describes it."""

    make: str
    color: str | None
    insured: bool | None
    mot_expiry: str | None

    def later(self, other: "Car") -> "Car":
        """Return the same vehicle some time later: its make stays, and its MOT ends no earlier."""
        ends = max(filter(None, (self.mot_expiry, other.mot_expiry)), default=None)
        return other._replace(make=self.make, mot_expiry=ends)


class Cover(NamedTuple):
    """A policy, by plate and number."""

    insurer: str
    valid_from: str
    valid_to: str
    cancelled_on: str | None


class Rdw:
    """A nightly snapshot of all cars, which replaces the register."""

    name = "rdw"
    rows = 1_500

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.cars = {f"R{number:05}": self._car() for number in range(self.rows)}

    def _car(self) -> Car:
        chance = self._chance
        expiry = FIRST_DAY + timedelta(days=chance.randrange(700))
        is_known = chance.random() < 0.9
        return Car(
            chance.choice(_MAKES),
            chance.choice(_COLOURS),
            chance.random() < 0.8,
            expiry.isoformat() if is_known else None,
        )

    def next_night(self) -> None:
        """Change one car in twenty; remove a few and add more."""
        plates = list(self.cars)
        for plate in self._chance.sample(plates, len(plates) // 20):
            self.cars[plate] = self.cars[plate].later(self._car())
        for plate in self._chance.sample(plates, 5):
            del self.cars[plate]
        newest = max(int(plate[1:]) for plate in plates)
        for number in range(newest + 1, newest + 8):
            self.cars[f"R{number:05}"] = self._car()

    def file(self, cars: Mapping[str, Car] | None = None) -> bytes:
        """Return tonight's snapshot."""
        lines = [
            "Kenteken,Merk,Handelsbenaming,Vervaldatum APK,Eerste kleur,Datum eerste toelating,"
            "WAM verzekerd,Vervaldatum APK DT"
        ]
        for plate, car in (self.cars if cars is None else cars).items():
            # The agency writes the first day without an inspection.
            day = shifted_day(car.mot_expiry, 1) if car.mot_expiry else ""
            insured = "" if car.insured is None else ("Ja" if car.insured else "Nee")
            dt = f"{day[5:7]}/{day[8:]}/{day[:4]} 12:00:00 AM" if day else ""
            plain = day.replace("-", "")
            lines.append(f"{plate},{car.make},,{plain},{car.color},20110203,{insured},{dt}")
        return ("\n".join(lines) + "\n").encode()


class Fleet:
    """Nightly changes of a fleet, in the native layout, which are merged."""

    name = "fleet"

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.cars: dict[str, Car] = {}
        self.tonight: dict[str, Car] = {}
        self.next_night()

    def next_night(self) -> None:
        """Describe some hundred cars, most of them known; few lose their cover."""
        chance = self._chance
        self.tonight = {}
        for plate in (f"F{chance.randrange(600):05}" for _ in range(300)):
            before = self.cars.get(plate)
            car = Car(
                chance.choice(_MAKES),
                chance.choice(_COLOURS),
                chance.random() < (0.99 if before and before.insured else 0.5),
                (FIRST_DAY + timedelta(days=chance.randrange(700))).isoformat(),
            )
            self.tonight[plate] = before.later(car) if before else car

    def apply(self) -> None:
        """Apply tonight's file."""
        self.cars |= self.tonight

    def file(self, cars: Mapping[str, Car] | None = None) -> bytes:
        """Return tonight's changes."""
        lines = ["registration,make,color,insured,motExpiry"]
        for plate, car in (self.tonight if cars is None else cars).items():
            insured = "" if car.insured is None else str(car.insured).lower()
            lines.append(f"{plate},{car.make},{car.color or ''},{insured},{car.mot_expiry or ''}")
        return ("\n".join(lines) + "\n").encode()


class Insurer:
    """New and cancelled policies every night, as NDJSON, which are merged."""

    name = "cover"

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.policies: dict[tuple[str, str], Cover] = {}
        self.tonight: dict[tuple[str, str], Cover] = {}
        self.next_night()

    def next_night(self) -> None:
        """Describe two hundred policies; some are known and renewed, and few are cancelled."""
        chance = self._chance
        self.tonight = {}
        for _ in range(200):
            number = chance.randrange(500)
            key = f"C{number:05}", f"P-{number}"
            start = FIRST_DAY + timedelta(days=chance.randrange(300))
            # A cancelled policy stays cancelled.
            before = self.policies.get(key)
            end = (start + timedelta(days=365)).isoformat()
            # Most were cancelled before they are in a file for the first time.
            is_cancelled = chance.random() < (0.002 if before else 0.2)
            cancelled = start + timedelta(days=30) if is_cancelled else None
            self.tonight[key] = (
                before
                if before and before.cancelled_on
                else Cover(
                    "Acme",
                    FIRST_DAY.isoformat(),
                    max(end, before.valid_to) if before else end,
                    cancelled.isoformat() if cancelled else None,
                )
            )

    def apply(self) -> None:
        """Apply tonight's file."""
        self.policies |= self.tonight

    def file(self) -> bytes:
        """Return tonight's policies."""
        return b"".join(json.dumps(each).encode() + b"\n" for each in self.objects())

    def objects(self) -> list[dict[str, str | None]]:
        """Return tonight's policies as JSON objects."""
        return [
            {
                "registration": plate,
                "number": number,
                "insurer": cover.insurer,
                "validFrom": cover.valid_from,
                "validTo": cover.valid_to,
                "cancelledOn": cover.cancelled_on,
            }
            for (plate, number), cover in self.tonight.items()
        ]


class Dvsa:
    """A nightly delta of tested and deleted vehicles, which is merged."""

    name = "dvsa"

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.expiries: dict[str, str | None] = {}
        self.tonight: dict[str, str | None] = {}
        self._night = 0
        self.next_night()

    def next_night(self) -> None:
        """Test two hundred vehicles; delete a few known ones."""
        chance = self._chance
        self._night += 1
        self.tonight = {}
        for plate in (f"D{chance.randrange(600):05}" for _ in range(200)):
            expiry = (FIRST_DAY + timedelta(days=chance.randrange(400))).isoformat()
            self.tonight[plate] = max(expiry, self.expiries.get(plate) or "")
        for plate in chance.sample(sorted(self.expiries), min(5, len(self.expiries))):
            self.tonight[plate] = None

    def apply(self) -> None:
        """Apply tonight's file."""
        for plate, expiry in self.tonight.items():
            if expiry is None:
                self.expiries.pop(plate, None)
            else:
                self.expiries[plate] = expiry

    @property
    def file_name(self) -> str:
        """Return the agency's name of tonight's file."""
        day = FIRST_DAY + timedelta(days=self._night)
        return f"delta-light-vehicle_{day:%d-%m-%Y}.zip"

    def lines(self) -> bytes:
        """Return tonight's records."""
        records = []
        for plate, expiry in self.tonight.items():
            record: dict[str, object] = {"registration": plate, "modification": "UPDATED"}
            if expiry is None:
                record["modification"] = "DELETED"
            else:
                test = {"testResult": "PASSED", "expiryDate": expiry}
                record |= {"make": "FORD", "model": "KA", "primaryColour": "Blue"}
                record |= {"firstUsedDate": "2011-01-01", "registrationDate": "2011-01-01"}
                record |= {"manufactureDate": "2011-01-01", "motTests": [test]}
                record |= {"last_update_date": "2026-01-01"}
            records.append(json.dumps(record))
        return ("\n".join(records) + "\n").encode()

    def file(self, lines: bytes | None = None) -> bytes:
        """Return tonight's delta: a zip with one packed member."""
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            member = self.file_name.replace(".zip", "_1.json.gz")
            archive.writestr(member, gzip.compress(self.lines() if lines is None else lines))
        return packed.getvalue()


Spoil = Callable[[bytes], bytes]


def without_tail(share: float) -> Spoil:
    """Truncate a file in the middle."""
    return lambda data: data[: int(len(data) * share)]


def without_rows(share: float) -> Spoil:
    """Remove rows from the end, so that the remaining rows are whole."""

    def spoil(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        return b"".join(lines[: int(len(lines) * (1 - share))])

    return spoil


def replaced(*pairs: tuple[bytes, bytes]) -> Spoil:
    """Replace texts everywhere."""

    def spoil(data: bytes) -> bytes:
        for old, new in pairs:
            assert old in data, old
            data = data.replace(old, new)
        return data

    return spoil


def every(nth: int, change: Spoil) -> Spoil:
    """Change each nth line below the header."""

    def spoil(data: bytes) -> bytes:
        header, *lines = data.splitlines(keepends=True)
        return header + b"".join(
            change(line) if number % nth == 0 else line for number, line in enumerate(lines, 1)
        )

    return spoil


def column_without_values(place: int) -> Spoil:
    """Empty a column of a CSV, below its header."""

    def empty(line: bytes) -> bytes:
        fields = line.rstrip(b"\n").split(b",")
        fields[place] = b""
        return b",".join(fields) + b"\n"

    return every(1, empty)


def both(*spoils: Spoil) -> Spoil:
    """Apply one after the other."""

    def spoil(data: bytes) -> bytes:
        for each in spoils:
            data = each(data)
        return data

    return spoil


def shifted(data: bytes) -> bytes:
    """Exchange the names of two columns, so that texts are in place of dates."""
    return replaced(
        (b"Merk,Handelsbenaming,Vervaldatum APK,", b"Vervaldatum APK,Handelsbenaming,Merk,")
    )(data)


def zip_of(data: bytes, name: str = "data.csv") -> bytes:
    """Pack one member."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, data)
    return packed.getvalue()


HTML = b"<!DOCTYPE html>\n<html><body><h1>503 Service Unavailable</h1></body></html>\n"

RDW_FAULTS: dict[str, Spoil] = {
    "the MOT column has another name": replaced(
        (b"Vervaldatum APK DT", b"Vervaldag keuring DT"), (b"Vervaldatum APK,", b"Vervaldag,")
    ),
    "the insured column has another name": replaced((b"WAM verzekerd", b"Verzekerd WAM")),
    "cut in the middle of a record": lambda data: data[:-25],
    "cut in the middle of the last field": lambda data: data[:-6],
    "cut behind the last record, before its line end": lambda data: data[:-1],
    "a seventh of the rows is missing": without_rows(0.15),
    "only half of it": without_tail(0.5),
    "the MOT dates are all empty": both(column_without_values(3), column_without_values(7)),
    "the insured flags are all empty": column_without_values(6),
    "one insured flag in five is empty": every(
        5, lambda line: line.replace(b",Ja,", b",,").replace(b",Nee,", b",,")
    ),
    "two columns have exchanged their names": shifted,
    "header only": lambda data: data.split(b"\n")[0] + b"\n",
    "empty": lambda _: b"",
    "an error page": lambda _: HTML,
    "an error in JSON": lambda _: b'{"code": "throttled", "error": true, "message": "later"}\n',
    "UTF-16": lambda data: data.decode().encode("utf-16"),
    "every tenth row is ragged": every(10, lambda line: line.replace(b",", b"", 1)),
    "every tenth row has no plate": every(10, lambda line: line[line.index(b",") :]),
    "a quote that is never closed": lambda data: data.replace(b",FORD", b',"FORD', 1),
    "bytes that mean nothing": lambda data: random.Random(5).randbytes(len(data)),
    "zeros, as a file system leaves them after a power cut": lambda data: bytes(len(data)),
    "zeros at its end": lambda data: data[: len(data) // 2] + bytes(len(data) // 2),
    "packed, and cut": lambda data: gzip.compress(data)[:-300],
    "packed, and one bit is wrong": lambda data: _with_a_flaw(gzip.compress(data)),
    "a zip without its end": lambda data: zip_of(data)[:-40],
    "a zip with a text only": lambda _: zip_of(b"see our site\n", "a.txt") + b"",
    "no commas any more": lambda data: data.replace(b",", b" "),
    "policies instead of cars": lambda _: (
        b"registration,number,validFrom,validTo\nR00001,P-1,2026-01-01,2026-12-31\n"
    ),
}
FLEET_FAULTS: dict[str, Spoil] = {
    "no registrations": replaced((b"registration,", b"plate_no,")),
    "the insured flags are in another language": replaced(
        (b",true,", b",oui,"), (b",false,", b",non,")
    ),
    "the flags are all empty": replaced((b",true,", b",,"), (b",false,", b",,")),
    "cut in the middle of a row": lambda data: data[:-14],
    "UTF-16 without a mark": lambda data: data.decode().encode("utf-16-le"),
    "semicolons in the header only": lambda data: data.replace(b",", b";", 4),
}
COVER_FAULTS: dict[str, Spoil] = {
    "cut in the middle of an object": lambda data: data[:-30],
    "the end is before the beginning": replaced((b'"validTo": "2027', b'"validTo": "2017')),
    "dates as the British write them": replaced(
        (b'"validFrom": "2026-01-01"', b'"validFrom": "01/01/2026"')
    ),
    "an error page": lambda _: HTML,
}
DVSA_FAULTS: dict[str, Spoil] = {
    "a zip that was cut": lambda data: data[: len(data) // 2],
    "the sign-in page": lambda _: HTML,
    "a zip without records": lambda _: zip_of(b"", "delta_1.json"),
}


def _with_a_flaw(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]
