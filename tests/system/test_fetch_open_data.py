"""`fetch-open-data.sh` against a local server: nothing half arrives in the drop directory."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.contract.pages import PAGES, blocks
from tests.programs import needs
from tests.system.drop import Drop
from tests.system.machine import Machine
from tests.system.processes import DEADLINE_SECONDS, ROOT, until
from tests.system.threads import serving

pytestmark = needs("curl", "curl")
SCRIPT = ROOT / "deploy" / "fetch-open-data.sh"
PAGE = "deploy/docs/data-sources.md"
OPTIONS = {
    register: options
    for options, register in re.findall(
        r"(?m)^echo '(.+)' \| sudo tee /etc/verifyd/imports/(\w+)$", PAGES[PAGE]
    )
}
"""The options of `verifyd import` that the page gives each register."""
RDW_COLUMNS = (
    "kenteken,merk,handelsbenaming,datum_eerste_toelating,eerste_kleur,wam_verzekerd,"
    "vervaldatum_apk"
)
# The platform quotes every value.
CSVS = {
    "m9d7-ebf2": (
        '"kenteken","merk","handelsbenaming","datum_eerste_toelating","eerste_kleur",'
        '"wam_verzekerd","vervaldatum_apk"\n'
        '"11ZKZ3","SKODA","CITIGO","20131105","GRIJS","Ja","20990105"\n'
        '"QA01AA","SEAT","E ""ADVANCE""","20160112","ROOD","Nee",""\n'
    ),
    "nc67-uf89": (
        '"plate","state","summons_number","issue_date","amount_due"\n'
        '"QQQ1001","NY","1400000001","01/19/2017","130.97"\n'
        '"0012","NY","1400000002","2024-05-01T00:00:00.000","50"\n'
    ),
}
RDW = CSVS["m9d7-ebf2"].encode()
RDW_LINE_END = RDW.replace(b'"ROOD"', b'"RO\nOD"')
OLD = {"rdw.csv": b"kenteken\nOLD1\n", "rdw.csv.sha256": b"0" * 64}


class Agency(ThreadingHTTPServer):
    """Answers as the platform of both agencies does; tests change what it holds and how it answers.

    `asked` has the path and the query of each request.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.updated_at = 1_790_000_000
        self.rows = 2
        self.status = 200
        self.csv: bytes | None = None
        self.cut_bytes = 0
        self.afterwards: Callable[[], None] = lambda: None
        self.halfway = threading.Event()
        self.goes_on = threading.Event()
        self.goes_on.set()

    @property
    def address(self) -> str:
        """The address that stands for those of the agencies."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def change(self, *, rows: int = 0) -> None:
        """Publish again, with more rows or as many."""
        self.updated_at += 1
        self.rows += rows


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Agency

    def do_GET(self) -> None:
        path, query = urlsplit(self.path).path, parse_qs(urlsplit(self.path).query)
        self.server.asked.append((path, {name: value for name, (value,) in query.items()}))
        dataset, _, kind = path.rpartition("/")[2].partition(".")
        if kind == "csv":
            self._send_csv(CSVS[dataset].encode())
        elif "/views/" in path:
            view = {"id": dataset, "rowsUpdatedAt": self.server.updated_at, "columns": []}
            self._send(json.dumps(view, indent=2).encode())
        else:
            self._send(f'[{{"count":"{self.server.rows}"}}]\n'.encode())

    def _send_csv(self, whole: bytes) -> None:
        whole = whole if self.server.csv is None else self.server.csv
        packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)  # As gzip.
        first = packer.compress(whole[:100]) + packer.flush(zlib.Z_SYNC_FLUSH)
        rest = packer.compress(whole[100:]) + packer.flush()
        self._begin(len(first + rest), {"Content-Encoding": "gzip"})
        self.wfile.write(first)
        self.server.halfway.set()
        self.server.goes_on.wait()
        self.wfile.write(rest[: len(rest) - self.server.cut_bytes])
        self.server.afterwards()
        self.close_connection = True

    def _send(self, body: bytes) -> None:
        self._begin(len(body), {})
        self.wfile.write(body)

    def _begin(self, length: int, headers: Mapping[str, str]) -> None:
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_words: object) -> None:
        """Be silent."""


@pytest.fixture
def agency() -> Iterator[Agency]:
    """A server that answers as the agencies do."""
    with serving(Agency()) as server:
        yield server
        server.goes_on.set()


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The directory of a register, with a file that still waits for its load."""
    path = tmp_path / "drop" / "rdw"
    path.mkdir(parents=True)
    for name, content in OLD.items():
        (path / name).write_bytes(content)
    return path


def start(agency: Agency, *words: object, **variables: str) -> subprocess.Popen[str]:
    """Start the script, in a group of processes of its own."""
    environ = {**os.environ, "OPEN_DATA_SITE": agency.address, "no_proxy": "*", **variables}
    return subprocess.Popen(
        [SCRIPT, *map(str, words)],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def fetch(agency: Agency, *words: object, **variables: str) -> tuple[int, str, str]:
    """Run the script to its end; return its status, output and errors."""
    process = start(agency, *words, **variables)
    output, errors = process.communicate(timeout=DEADLINE_SECONDS)
    return process.returncode, output, errors


def visible(directory: Path) -> dict[str, bytes]:
    """Return what loads see in a directory."""
    paths = [path for path in directory.iterdir() if not path.name.startswith(".")]
    return {path.name: path.read_bytes() for path in paths}


def parts(directory: Path) -> list[str]:
    """Return the files that are not complete."""
    return [path.name for path in directory.iterdir() if path.name.endswith(".part")]


def test_a_complete_file_appears_with_its_checksum(agency, directory):
    """It replaces the one that waits, any user can read it, and its marker is that of sha256sum."""
    ended = fetch(agency, "rdw", directory)
    assert ended == (0, f"2 rows are in {directory}/rdw.csv\n", "")
    digest = hashlib.sha256(RDW).hexdigest()
    assert visible(directory) == {
        "rdw.csv": RDW,
        "rdw.csv.sha256": f"{digest}  rdw.csv\n".encode(),
    }
    assert parts(directory) == []
    assert (directory / "rdw.csv").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize(
    ("words", "dataset", "asked"),
    [
        (
            ["rdw"],
            "m9d7-ebf2",
            {"$select": RDW_COLUMNS, "$where": "kenteken IS NOT NULL", "$limit": "3"},
        ),
        (
            ["nyc"],
            "nc67-uf89",
            {
                "$select": "plate,state,summons_number,issue_date,amount_due",
                "$where": "state = 'NY' AND amount_due > 0",
                "$limit": "3",
            },
        ),
    ],
)
def test_only_what_is_read_is_asked_for(agency, directory, words, dataset, asked):
    """Columns, filter and a limit of one row more are sent; rows are counted before and after."""
    assert fetch(agency, *words, directory)[0] == 0
    view: tuple[str, dict[str, str]] = (f"/api/views/{dataset}.json", {})
    counted = (f"/resource/{dataset}.json", {"$select": "count(*)", "$where": asked["$where"]})
    csv = (f"/resource/{dataset}.csv", asked)
    assert agency.asked == [view, counted, csv, view, counted]


def test_a_state_can_be_named(agency, directory):
    """Fines of another state are asked for in its name."""
    assert fetch(agency, "nyc", directory, "NJ")[0] == 0
    assert agency.asked[1][1]["$where"] == "state = 'NJ' AND amount_due > 0"


def test_a_line_end_within_quotes_is_no_row(agency, directory):
    """Rows are counted, and not lines."""
    agency.csv = RDW_LINE_END
    assert fetch(agency, "rdw", directory)[0] == 0
    assert visible(directory)["rdw.csv"] == RDW_LINE_END


FAULTS: dict[str, tuple[Callable[[Agency], object], str]] = {
    "HTTP error": (lambda agency: setattr(agency, "status", 503), "returned error: 503"),
    "transfer cut off": (lambda agency: setattr(agency, "cut_bytes", 10), "was not downloaded"),
    "empty": (lambda agency: setattr(agency, "csv", b""), "sent an empty file"),
    "a page instead": (
        lambda agency: setattr(agency, "csv", b"<html>\nSorry\nSorry\n"),
        f"sent no CSV with {RDW_COLUMNS}",
    ),
    "a column is missing": (
        lambda agency: setattr(agency, "csv", RDW.replace(b',"merk"', b"")),
        f"sent no CSV with {RDW_COLUMNS}",
    ),
    "cut off between rows": (
        lambda agency: setattr(agency, "csv", RDW[: RDW.index(b'"QA01AA')]),
        "sent 1 rows instead of 2",
    ),
    "cut off in a row": (
        lambda agency: setattr(agency, "csv", RDW[:-4]),
        "sent a file without its last line end",
    ),
    "cut off in quotes": (
        lambda agency: setattr(agency, "csv", RDW_LINE_END[: RDW_LINE_END.index(b'OD"')]),
        "sent 1 rows instead of 2",
    ),
    "one row too many": (
        lambda agency: setattr(agency, "csv", RDW + b'"QA02AA","","","","","",""\n'),
        "sent 3 rows instead of 2",
    ),
    "published again": (
        lambda agency: setattr(agency, "afterwards", agency.change),
        "published other rows during the download; run it again",
    ),
    "a row came": (
        lambda agency: setattr(agency, "afterwards", lambda: agency.change(rows=1)),
        "published other rows during the download; run it again",
    ),
    "no rows": (lambda agency: setattr(agency, "rows", 0), "does not say how many rows"),
    "no count": (lambda agency: setattr(agency, "rows", "?"), "does not say how many rows"),
    "no time": (lambda agency: setattr(agency, "updated_at", None), "does not say how many rows"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_half_arrives(agency, directory, fault):
    """Whatever goes wrong, the file that waits stays, nothing is left, and the reason is said."""
    (directory / ".rdw.csv.part").write_bytes(RDW)  # Of a run that was killed.
    change, reason = FAULTS[fault]
    change(agency)
    status, output, errors = fetch(agency, "rdw", directory)
    assert (status, output) == (1, "")
    assert reason in errors
    assert visible(directory) == OLD
    assert parts(directory) == []


def test_an_agency_that_cannot_be_reached(agency, directory):
    """The reason is that of curl, with the address."""
    agency.server_close()
    status, _, errors = fetch(agency, "rdw", directory)
    assert status == 1
    assert f"{agency.address}/api/views/m9d7-ebf2.json was not downloaded" in errors
    assert visible(directory) == OLD


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_download_that_is_killed_is_made_again(agency, directory, number):
    """Loads see nothing of it, and the next run completes the file and leaves nothing else."""
    agency.goes_on.clear()
    process = start(agency, "rdw", directory)
    assert agency.halfway.wait(DEADLINE_SECONDS)
    until(lambda: parts(directory), "the part")
    os.killpg(process.pid, number)
    process.communicate()
    assert visible(directory) == OLD
    assert parts(directory) == ([".rdw.csv.part"] if number == signal.SIGKILL else [])
    agency.goes_on.set()
    assert fetch(agency, "rdw", directory)[0] == 0
    assert visible(directory)["rdw.csv"] == RDW
    assert parts(directory) == []


def test_no_load_sees_a_file_with_the_marker_of_another(agency, directory, tmp_path):
    """The former file goes first, then the new marker comes, and then its file."""
    watching = tmp_path / "mv"
    watching.write_text('#!/bin/sh\necho "$(ls "${2%/*}")" >>"$SEEN"; exec /bin/mv "$@"\n')
    watching.chmod(0o755)
    seen = tmp_path / "seen"
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert fetch(agency, "rdw", directory, PATH=path, SEEN=str(seen))[0] == 0
    assert seen.read_text() == "\nrdw.csv.sha256\n"


def test_of_two_at_once_one_is_refused(agency, directory):
    """Two downloads would write into the same file."""
    agency.goes_on.clear()
    first = start(agency, "rdw", directory)
    assert agency.halfway.wait(DEADLINE_SECONDS)
    status, _, errors = fetch(agency, "rdw", directory)
    assert status == 1
    assert f"another download into {directory} is running" in errors
    agency.goes_on.set()
    first.communicate()
    assert first.returncode == 0
    assert visible(directory)["rdw.csv"] == RDW


def test_a_full_disk(agency, make_disk):
    """The file that waits stays, and what was written of the new one is removed."""
    directory = make_disk(1)
    for name, content in OLD.items():
        (directory / name).write_bytes(content)
    agency.csv = RDW + b'"QA02AA","","","","","",""\n' * 100_000
    status, _, errors = fetch(agency, "rdw", directory)
    assert status == 1
    assert "curl: (23)" in errors
    assert visible(directory) == OLD
    assert parts(directory) == []


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["rdw"],
        ["rdw", "drop", "NY"],
        ["dvla", "drop"],
        ["nyc", "drop", "ny"],
        ["nyc", "drop", "N' OR"],
        ["nyc", "drop", ""],
        ["nyc", "drop", "NY", "NJ"],
    ],
)
def test_words_it_does_not_know_are_a_usage_error(agency, words):
    """Nothing is asked for; a state is two capital letters or digits."""
    status, output, errors = fetch(agency, *words)
    assert (status, output) == (2, "")
    assert errors.startswith("usage: fetch-open-data.sh rdw DIRECTORY\n")
    assert agency.asked == []


def test_a_directory_that_is_missing(agency, tmp_path):
    """It is not made: its owner and mode matter to the loads."""
    status, _, errors = fetch(agency, "rdw", tmp_path / "none")
    assert (status, errors) == (
        1,
        f"fetch-open-data: {tmp_path}/none does not exist, or is not a directory\n",
    )


@pytest.mark.parametrize("wait", ["quiet", "sha256"])
@pytest.mark.parametrize("register", ["rdw", "nyc"])
def test_the_nightly_load_reads_it(agency, drop, register, wait):
    """With the options of the page, both files load without a note, and a part of one waits."""
    directory = drop.root / register
    directory.mkdir()
    drop.option(register, OPTIONS[register])
    agency.goes_on.clear()
    process = start(agency, register, directory)
    assert agency.halfway.wait(DEADLINE_SECONDS)
    assert load(drop, wait) == []
    agency.goes_on.set()
    process.communicate()
    assert process.returncode == 0
    file = directory / f"{register}.csv"
    age_seconds = 300
    os.utime(file, (file.stat().st_mtime - age_seconds,) * 2)
    (loaded,) = load(drop, wait)
    assert (loaded["status"], loaded["loaded"], loaded["rejected"]) == ("loaded", 2, 0)
    assert loaded["register"] == register
    names = [f"{register}/loaded/{register}.csv", f"{register}/loaded/{register}.csv.sha256"]
    assert drop.loaded() == names
    assert drop.left() == [f"{register}/.{register}.csv.lock"]


def load(drop: Drop, wait: str) -> list[dict[str, object]]:
    """Load the drop directory, and return the report of each load."""
    ended = drop.run("--json", drop_wait=wait)
    assert ended.returncode == 0, ended.stderr
    documents: list[dict[str, object]] = json.loads(ended.stdout)
    return documents


NGINX = """
server {
    listen 127.0.0.1:8081;
    root /srv;
    location ^~ /api/views/ { return 200 '{"rowsUpdatedAt": 1790000000}'; }
    location ~ [.]json$ { return 200 '[{"count":"2"}]'; }
}
"""


@pytest.mark.system_long
def test_the_lines_of_the_page_download_every_night(socket_directory):
    """Units and timers work as they are printed, and a download that fails is tried again."""
    (block,) = [each for each in blocks(PAGE) if each.language == "sh"]
    packages, lines = block.text.split("\n", 1)
    assert packages == "sudo apt-get install curl ca-certificates"  # There is no network.
    with Machine(socket_directory) as machine:
        machine.do("useradd --system verifyd; mkdir -p /etc/verifyd/imports /opt/verifyd/current")
        machine.do("install -d -o verifyd -g verifyd -m 770 /var/lib/verifyd/drop")
        machine.do("mkdir /srv/resource; chmod 750 /etc/verifyd")
        shutil.copy(SCRIPT, machine.path("/opt/verifyd/current"))
        machine.path("/etc/nginx/conf.d/agency.conf").write_text(NGINX)
        for dataset, text in CSVS.items():
            machine.path(f"/srv/resource/{dataset}.csv").write_text(text)
        machine.do("systemctl restart nginx")
        machine.do("systemctl set-environment OPEN_DATA_SITE=http://127.0.0.1:8081")
        machine.do(lines)
        for register in ("rdw", "nyc"):
            unit, directory = f"fetch-open-data@{register}", f"/var/lib/verifyd/drop/{register}"
            file = f"{directory}/{register}.csv"
            until(machine.path(file).exists, file)
            assert machine.do(f"stat -c '%U %a' {file}") == "verifyd 644\n"
            assert machine.do(f"cd {directory}; sha256sum --check {file}.sha256").endswith(": OK\n")
            told = machine.do(f"journalctl --no-pager --unit {unit}")
            assert f"2 rows are in {file}" in told
            next_run = machine.do(f"systemctl list-timers --no-pager {unit}.timer")
            assert re.search(r" 01:(0\d|1[0-5]):\d\d ", next_run), next_run

        machine.do("systemctl stop nginx; systemctl start --no-block fetch-open-data@rdw")
        substate = "systemctl show --value --property SubState fetch-open-data@rdw"
        until(lambda: machine.do(substate) == "auto-restart\n", "a pause before another attempt")
        assert machine.path("/var/lib/verifyd/drop/rdw/rdw.csv").read_bytes() == RDW
