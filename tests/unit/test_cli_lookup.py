"""`verifyd lookup PLATE...`: the API's answers, and which rows decided them."""

import io
import json
import re
from datetime import date

import pytest

from app.vehicles.answer_cells import COLUMNS, PERIOD_COLUMNS
from app.vehicles.reader import VehicleReader
from tests.conftest import ON_SQLITE
from tests.contract.pages import PAGES, section
from tests.enquiry import set_suggest
from tests.unit.conftest import CommandLine

PAGE = PAGES["deploy/docs/look-up.md"]
DAY = "2025-07-01"
VEHICLE = {"registration": "AB12CDE", "make": "FORD", "motExpiry": "2026-01-31"}
POLICY = {"number": "P-1", "validFrom": "2025-01-01", "validTo": "2025-12-31"}
FINE = {"reference": "F-1", "amount": "65.00", "currency": "GBP"}


@pytest.fixture
def cli(bare_cli, world, monkeypatch) -> CommandLine:
    """The command line on the world's database."""
    monkeypatch.setenv("VERIFYD_DATABASE_URL", world.store.url)
    monkeypatch.setenv("VERIFYD_STATE_DIR", str(world.config.state_dir))
    monkeypatch.setenv("VERIFYD_DATA_DIR", str(world.directory))
    monkeypatch.setenv("COLUMNS", "200")
    return bare_cli


@pytest.fixture
def loaded(world):
    """One vehicle in two registers, with a policy in each and a fine."""
    world.load([VEHICLE])
    world.load([{"registration": "AB12CDE", **POLICY}])
    world.load([{"registration": "AB12CDE", **FINE}])
    world.load([VEHICLE | {"make": "OPEL", "color": "RED"}], register="rdw")
    late = POLICY | {"number": "P-2", "validTo": "2026-06-30"}
    world.load([{"registration": "AB12CDE", **late}], register="rdw")


def failing(cli, *words):
    """Run a look-up in which a plate has no answer; return its output, and the reason."""
    ended = cli.run("lookup", *words)
    assert ended.status == 1
    return ended.stdout, ended.stderr


class TestAnswers:
    def test_plates_are_read_from_standard_input(self, cli, loaded, monkeypatch):
        """SEC: sudo logs arguments; `-` stands for the lines of standard input, as they are."""
        content = "\N{ZERO WIDTH NO-BREAK SPACE}ab12 cde\r\n\nNEW1\n".encode()
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
        document, _ = failing(cli, "OLD1", "-", "--json")
        assert [each["asked"] for each in json.loads(document)["plates"]] == [
            "OLD1",
            "ab12 cde",
            "NEW1",
        ]

    def test_they_are_those_of_the_api(self, cli, alice, loaded):
        """The answers equal the API's, except for the time of the request."""
        (plate,) = cli.json("lookup", "ab12 cde", "--as-of", DAY)["plates"]
        asked = f"asOf={DAY}&details=true"
        insurance = alice.get(f"/v1/vehicle/AB12CDE/insurance?{asked}&policies=all").json
        assert plate["insurance"] | {"asOf": DAY} == insurance
        answer = alice.get(f"/v1/compliance/AB12CDE?{asked}&explain=true").json
        changing = {"asOf": DAY, "lastChecked": ""}
        assert plate["compliance"] | changing == answer | changing

    def test_those_of_a_period_are_those_of_the_api(self, cli, alice, loaded):
        """A period that fails also says which checks fail then, and with which policy."""
        days = ("2026-01-30", "2026-02-02")
        document = cli.json("lookup", "AB12CDE", "--from", days[0], "--to", days[1])
        assert document["period"] == {"firstDay": days[0], "lastDay": days[1]}
        (plate,) = document["plates"]
        asked = "from={}&to={}&details=true".format(*days)
        insurance = alice.get(f"/v1/vehicle/AB12CDE/insurance?{asked}&policies=all").json
        assert plate["insurance"] == insurance
        told, period = plate["compliance"], plate["compliance"]["period"]
        assert period["firstFailingDay"] == days[0]
        assert not period.pop("checks")["noOutstandingFines"]
        assert period.pop("policy")["number"] == "P-2"
        answer = alice.get(f"/v1/compliance/AB12CDE?{asked}&explain=true").json
        assert told | {"lastChecked": ""} == answer | {"lastChecked": ""}

    @ON_SQLITE
    def test_the_day_is_today_by_default(self, cli, loaded, monkeypatch):
        """The default day is today in the time zone of the settings (D20)."""
        monkeypatch.setattr("app.clock.today", lambda zone: date.fromisoformat(DAY))
        assert cli.json("lookup", "AB12CDE")["asOf"] == DAY

    @ON_SQLITE
    def test_each_spelling_is_answered(self, cli, loaded):
        """Each given plate has one answer, in the same order."""
        plates = cli.json("lookup", "AB12CDE", "ab-12-cde", "AB12CDE")["plates"]
        assert [each["asked"] for each in plates] == ["AB12CDE", "ab-12-cde", "AB12CDE"]
        assert {each["registration"] for each in plates} == {"AB12CDE"}

    @pytest.mark.parametrize("row", [POLICY, FINE], ids=["policy", "fine"])
    def test_a_plate_that_no_vehicle_row_has_is_known(self, cli, world, row):
        """A policy or a fine makes a plate known; the document names its register."""
        world.load([{"registration": "AB12CDE", **row}])
        (plate,) = cli.json("lookup", "AB12CDE")["plates"]
        assert plate["insurance"]["vehicle"]["make"] is None
        (holding,) = plate["registers"]
        assert holding["vehicle"] is None
        assert len(holding["policies"]) + len(holding["fines"]) == 1

    def test_the_order_of_registers_is_the_settings(self, cli, loaded, monkeypatch):
        """VERIFYD_REGISTER_ORDER has the same effect as in the service (D26)."""
        monkeypatch.setenv("VERIFYD_REGISTER_ORDER", "rdw,native")
        document = cli.json("lookup", "AB12CDE", "--as-of", DAY)
        assert document["registers"] == ["rdw", "native"]
        assert document["plates"][0]["insurance"]["vehicle"]["make"] == "OPEL"


class TestWithoutAnswer:
    def test_the_others_are_answered(self, cli, loaded):
        """Unknown and invalid plates are reported as in the API; the exit status is 1."""
        stdout, stderr = failing(cli, "ZZ99ZZZ", "!!", "AB12CDE")
        assert "ZZ99ZZZ: Vehicle not found" in stdout
        assert "!!: Invalid registration number" in stdout
        assert "P-2" in stdout
        assert stderr.startswith("2 of 3 without an answer: ZZ99ZZZ: Vehicle not found; !!: ")

    @ON_SQLITE
    def test_json_has_their_codes(self, cli, loaded):
        """The whole document is on stdout, with the API's codes."""
        ended = cli.run("lookup", "zz 99", "!!", "--json")
        assert ended.status == 1
        assert '"code": "vehicle_not_found"' in ended.stdout
        assert '"registration": "ZZ99"' in ended.stdout
        assert '"code": "invalid_registration"' in ended.stdout

    def test_plates_that_look_like_it_are_suggested(self, cli, world):
        """With what is known of the vehicle; the exit status is still 1 (D175)."""
        world.load([VEHICLE | {"model": "FOCUS", "color": "BLUE"}, {"registration": "A812CDE"}])
        stdout, stderr = failing(cli, "a8 12 cdE", "ABI2CDE", "A8I2CDE", "CAT", "!!")
        assert stdout.count("Did you mean") == 2
        question = "  Did you mean AB12CDE (FORD FOCUS, BLUE)?\n"
        unknown = "Vehicle not found\n  No register mentions it: native\n"
        assert f"ABI2CDE: {unknown}{question}" in stdout
        assert f"A8I2CDE: {unknown}  Did you mean A812CDE?\n" in stdout
        assert stderr.startswith("4 of 5 without an answer: ABI2CDE: Vehicle not found; ")

    @ON_SQLITE
    def test_json_has_the_suggestions_of_the_api(self, cli, alice, world):
        """One changed character, for each unknown plate; others have no such member."""
        world.load([VEHICLE, {"registration": "ABI2C0E", "make": "SEAT"}])
        set_suggest(world.engine, "standard", "on")
        ended = cli.run("lookup", "ABI2CDE", "CAT", "!!", "AB12CDE", "--json")
        several, none, invalid, known = json.loads(ended.stdout)["plates"]
        answer = alice.get("/v1/vehicle/ABI2CDE/insurance").json
        assert several["suggestions"] == answer["suggestions"]
        assert [each["registration"] for each in several["suggestions"]] == ["AB12CDE", "ABI2C0E"]
        assert none["suggestions"] == []
        assert "suggestions" not in invalid.keys() | known.keys()

    def test_without_registers_no_plate_is_known(self, cli):
        """Before the first load the reason is that no register was loaded."""
        stdout, _ = failing(cli, "AB12CDE")
        assert stdout == "AB12CDE: Vehicle not found\n  No register is loaded\n"

    @ON_SQLITE
    def test_a_register_that_cannot_be_read_is_named(self, cli, world, loaded):
        """Other registers are not used alone: the missing one could insure the plate."""
        next(world.directory.glob("*register_rdw*.db")).unlink()
        assert "the register rdw cannot be read: restore it, or drop it" in cli.refusal(
            "lookup", "AB12CDE"
        )

    @ON_SQLITE
    @pytest.mark.parametrize(
        ("day", "fault"),
        [
            ("2025-02-29", "names a day that does not exist"),
            *((each, "must be a day as YYYY-MM-DD") for each in ("20250701", "tomorrow", "")),
        ],
    )
    def test_an_invalid_day_is_refused(self, cli, day, fault):
        """An invalid day is refused, as the API's asOf is."""
        assert fault in cli.misuse("lookup", "AB12CDE", "--as-of", day)

    @ON_SQLITE
    @pytest.mark.parametrize(
        ("days", "fault"),
        [
            (("--from", DAY), "argument --from: is not allowed without --to"),
            (("--to", DAY), "argument --to: is not allowed without --from"),
            (("--from", DAY, "--to", "2025-06-30"), "argument --to: must not be before --from"),
            (("--from", DAY, "--to", "2026-08-05"), "401 days; at most 400 are allowed"),
            (("--from", DAY, "--to", "2025-06-31"), "names a day that does not exist"),
            (("--from", DAY, "--to", DAY, "--as-of", DAY), "is not allowed with --from and --to"),
        ],
    )
    @pytest.mark.parametrize("asked", [["AB12CDE"], ["--csv", "a.csv"]])
    def test_days_that_are_no_period_are_refused(self, cli, days, fault, asked):
        """As the API refuses them, but with the names of the options."""
        assert fault in cli.misuse("lookup", *asked, *days)

    @ON_SQLITE
    @pytest.mark.parametrize(
        "words",
        [
            [],
            ["AB12CDE", "--csv", "a.csv"],
            ["AB12CDE", "--column", "plate"],
            ["AB12CDE", "--output", "b.csv"],
            ["--csv", "a.csv", "--json"],
        ],
    )
    def test_contradictory_arguments_are_refused(self, cli, words):
        """A look-up takes plates or a file, and each has its own options."""
        assert "error: " in cli.misuse("lookup", *words)


class TestContradictions:
    @pytest.fixture
    def registers(self, world):
        """Three registers that disagree about a plate."""
        plate = {"registration": "AB12CDE"}
        world.load([plate | POLICY], register="native")
        world.load([plate | FINE], register="native")
        papers = {"motExpiry": "2025-06-30", "taxStatus": "untaxed"}
        world.load([plate | papers | {"insured": False}], register="rdw")
        world.load([plate | POLICY | {"cancelledOn": "2025-06-01"}], register="zulu")
        world.load([plate | FINE | {"settledOn": "2025-06-01"}], register="zulu")
        world.load([plate | VEHICLE | {"taxStatus": "taxed"}], register="zulu")

    def test_they_are_named_for_each_check(self, cli, registers):
        """A register says the opposite by a flag, the same policy, its papers, or the same fine."""
        (plate,) = cli.json("lookup", "AB12CDE", "--as-of", DAY)["plates"]
        decided = {each["column"]: each for each in plate["decidedBy"]}
        assert {name: each["contradictedBy"] for name, each in decided.items()} == {
            **{name: [] for name in decided},
            "insured": ["rdw", "zulu"],
            "motValid": ["rdw"],
            "roadTaxPaid": ["zulu"],
            "noOutstandingFines": ["zulu"],
        }
        text = cli.run("lookup", "AB12CDE", "--as-of", DAY).stdout
        assert "policy P-1 of native is in force on 2025-07-01; rdw and zulu say the opp" in text
        assert "the latest that any register knows; rdw says the opposite" in text
        assert "no other policy is" not in text
        assert "zulu has the same policy, which was cancelled on 2025-06-01" in text

    @ON_SQLITE
    def test_a_yes_beside_a_policy_that_ended(self, cli, world):
        """The policy decides, and the register that says yes is named."""
        world.load([{"registration": "AB12CDE", **POLICY, "validTo": "2025-06-30"}])
        world.load([{"registration": "AB12CDE", "insured": True}], register="rdw")
        text = cli.run("lookup", "AB12CDE", "--as-of", DAY).stdout
        assert "policy P-1 of native ended on 2025-06-30; rdw says the opposite" in text

    @ON_SQLITE
    def test_the_same_policy_can_have_ended_elsewhere(self, cli, world):
        """A renewal that only one register knows is the same policy with a later end."""
        policy = {"registration": "AB12CDE", **POLICY}
        world.load([policy])
        world.load([policy | {"validTo": "2025-06-30"}], register="rdw")
        text = cli.run("lookup", "AB12CDE", "--as-of", DAY).stdout
        assert "rdw has the same policy, which ended on 2025-06-30" in text

    @ON_SQLITE
    def test_a_register_that_agrees_for_another_reason_is_not_named(self, cli, world):
        """It has the same policy cancelled and the same fine settled, but others beside them."""
        plate = {"registration": "AB12CDE"}
        world.load([plate | POLICY], register="native")
        world.load([plate | FINE], register="native")
        cancelled = POLICY | {"cancelledOn": "2025-06-01"}
        other = POLICY | {"number": "P-2", "validTo": "2025-11-30"}
        world.load([plate | cancelled, plate | other], register="zulu")
        settled, owed = FINE | {"settledOn": "2025-06-01"}, FINE | {"reference": "F-2"}
        world.load([plate | settled, plate | owed], register="zulu")
        text = cli.run("lookup", "AB12CDE", "--as-of", DAY).stdout
        assert "opposite" not in text

    def test_other_policies_and_unknown_values_contradict_nothing(self, cli, loaded):
        """An old policy is no contradiction of the one after it."""
        for day in (DAY, "2026-05-01"):
            (plate,) = cli.json("lookup", "AB12CDE", "--as-of", day)["plates"]
            assert not any(each["contradictedBy"] for each in plate["decidedBy"])

    def test_a_file_has_them_in_a_column(self, cli, registers):
        """Each check with each register, without any delimiter of the file."""
        given = cli.directory / "given.csv"
        given.write_text("plate\nAB12CDE\nZZ9\n")
        text = cli.run("lookup", "--csv", given, "--as-of", DAY).stdout
        heading, known, unknown = (line.split(",") for line in text.splitlines())
        at = heading.index("verifyd_contradictedBy")
        assert known[at].split() == [
            *("insuranceValid=rdw", "insuranceValid=zulu", "motValid=rdw"),
            *("roadTaxPaid=zulu", "noOutstandingFines=zulu"),
        ]
        assert unknown[at] == ""


@ON_SQLITE
class TestText:
    def test_it_prints_what_decided_and_why(self, cli, loaded):
        """If the line is wide enough, it has answer, register and reason."""
        text = cli.run("lookup", "ab12 cde", "--as-of", DAY).stdout
        assert 'AB12CDE (asked for as "ab12 cde") on 2025-07-01' in text
        assert re.search(r"insured +yes +rdw +policy P-2 of rdw is in force on 2025-07-01", text)
        assert re.search(r"policy +P-2 +rdw +in force on 2025-07-01; ends later", text)
        assert "(2026-06-30) than policy P-1 of native (2025-12-31)" in text
        assert re.search(r"make +FORD +native +native comes before rdw", text)
        assert re.search(r"color +RED +rdw +only rdw knows it", text)
        assert re.search(r"year +- +- +no register knows it", text)
        assert re.search(r"noOutstandingFines +no +native +one fine is owed", text)
        assert re.search(r"fine +reference F-1, amount 65.00, currency GBP, outstanding yes", text)

    def test_it_prints_until_when_the_answer_holds(self, cli, world, loaded):
        """In words: also that no end is known, and that later days are not judged."""
        text = cli.run("lookup", "AB12CDE", "--as-of", DAY).stdout
        assert "insured    yes (valid), until 2026-06-30\n" in text
        assert "compliant  no (roadTaxPaid: unknown, noOutstandingFines: outstanding)\n" in text
        assert "policies   P-2, P-1 are in force\n" in text
        world.load([{"registration": "FLAG1", "insured": True}])
        text = cli.run("lookup", "FLAG1", "--as-of", DAY).stdout
        assert "insured    yes (flag), no end is known\n" in text
        world.load(
            {"registration": "MANY1", **POLICY, "number": f"{n:03}", "validTo": "2026-12-31"}
            for n in range(101)
        )
        period = ("--from", DAY, "--to", DAY)
        text = cli.run("lookup", "MANY1", *period).stdout
        too_many = "not judged: more than 100 policies"
        assert f"insured    yes (valid), later days are {too_many}\n" in text
        assert f"Every day from {DAY} to {DAY}\n  insured    {too_many}\n" in text
        assert (
            "and more, which may end later, as there are more than 100 policies, are in force"
            in text
        )

    def test_it_prints_the_first_failing_day(self, cli, loaded):
        """With the checks that fail on it, after the answers of the first day."""
        words = ("--from", "2026-06-29", "--to", "2026-07-02")
        text = cli.run("lookup", "AB12CDE", *words).stdout
        assert "AB12CDE on 2026-06-29\n  insured    yes (valid), until 2026-06-30\n" in text
        assert (
            "Every day from 2026-06-29 to 2026-07-02\n"
            "  insured    no, not on 2026-07-01 (insuranceValid: expired)\n"
            "  compliant  no, not on 2026-06-29 (motValid: expired, roadTaxPaid: unknown, "
        ) in text
        text = cli.run("lookup", "AB12CDE", "--from", DAY, "--to", "2025-07-04").stdout
        assert "Every day from 2025-07-01 to 2025-07-04\n  insured    yes\n" in text

    @pytest.mark.parametrize("columns", [30, 40, 80, 120, 200])
    def test_no_line_is_wider_than_the_terminal(self, cli, loaded, monkeypatch, columns):
        """At any width no line is wider than the terminal, and no word is lost."""
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = cli.run("lookup", "AB12CDE", "--as-of", DAY).stdout.splitlines()
        assert max(map(len, lines)) <= columns
        words = " ".join(lines).split()
        assert {"FORD", "OPEL", "P-1", "P-2", "F-1", "noOutstandingFines"} <= {
            word.strip(",") for word in words
        }

    def test_nothing_moves_the_cursor(self, cli, loaded):
        """Control characters of a plate or a register are escaped."""
        stdout, stderr = failing(cli, "A\x1b[2JB")
        assert "\x1b" not in stdout + stderr
        assert "A\\x1b[2JB" in stdout


@ON_SQLITE
def test_every_look_up_passes_the_reader(cli, alice, loaded, monkeypatch):
    """Operations and commands use the same reader, so that every look-up can be recorded."""
    seen = []
    look_up, look_up_held = VehicleReader.look_up, VehicleReader.look_up_held

    def noted(self, registers, asked, day, *wanted):
        seen.append(list(asked))
        return look_up(self, registers, asked, day, *wanted)

    def noted_held(self, engine, registers, asked, day):
        seen.append(list(asked))
        return look_up_held(self, engine, registers, asked, day)

    monkeypatch.setattr(VehicleReader, "look_up", noted)
    monkeypatch.setattr(VehicleReader, "look_up_held", noted_held)
    alice.get("/v1/vehicle/AB12CDE/insurance")
    alice.get("/v1/compliance/AB12CDE")
    alice.post("/v1/vehicle/bulk-insurance", {"registrations": ["AB12CDE", "!!"]})
    cli.json("lookup", "AB12CDE", "ab12cde")
    file = cli.file("a.csv", "plate", "AB12CDE", "ZZ9", "a,b")
    cli.json("lookup", "--csv", file, "--output", cli.directory / "b.csv")
    one, two = ["AB12CDE"], ["AB12CDE", "!!"]
    assert seen == [one, one, two, ["AB12CDE", "ab12cde"], ["AB12CDE", "ZZ9"]]


@ON_SQLITE
def test_the_page_shows_what_is_printed(cli, world, monkeypatch):
    """The examples in the documentation are the real output."""
    plate = {"registration": "AB12CDE"}
    vehicle = {
        "make": "FORD",
        "model": "FOCUS",
        "year": 2012,
        "taxStatus": "taxed",
        "taxDue": "2027-04-30",
        "lastUpdated": "2026-11-01T06:00:00Z",
    }
    mot = {"color": "BLUE", "motExpiry": "2027-05-13", "lastUpdated": "2026-05-13T10:00:00Z"}
    world.load([plate | vehicle])
    world.load([plate | {"make": "FORD"} | mot], register="dvsa")
    policy = {
        "number": "P-1",
        "insurer": "Brackenmoor Mutual",
        "validFrom": "2026-03-01",
        "validTo": "2027-02-28",
        "type": "comprehensive",
        "lastUpdated": "2026-02-20T09:00:00Z",
    }
    world.load([plate | policy])
    monkeypatch.setenv("COLUMNS", "110")
    printed = cli.run("lookup", "ab12 cde", "--as-of", "2026-11-22").stdout
    assert f'$ verifyd lookup "ab12 cde" --as-of 2026-11-22\n{printed}```\n' in PAGE
    words = ("lookup", "AB12CDE", "--from", "2027-02-26", "--to", "2027-03-01")
    printed, _, _ = cli.run(*words).stdout.partition("\nDecided by")
    assert f"$ verifyd {' '.join(words)}\n{printed}...\n```\n" in PAGE


def test_the_page_names_every_column():
    """The documentation lists all columns, in the order in which they are appended.

    The last one is only there if answers tell what is not known (D198).
    """
    text = section("deploy/docs/look-up.md", "Look up a file of plates")
    assert re.findall(r"`verifyd_(\w+)`", text) == [*COLUMNS, *PERIOD_COLUMNS, "unknown"]
