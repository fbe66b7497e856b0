"""The binary without Python: behind nginx with TLS, and in its own root directory."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from app.documentation.resources import ASSETS
from app.settings import time_zones
from tests.programs import needs
from tests.system.binary import TOOLS, built, copy_tree
from tests.system.processes import ROOT, Answer, Service, descendants, lives, send, until
from tests.system.site import behind_site
from tests.unit.test_binary_parts import validator
from tests.unit.test_project import POSTGRES, RUN, needed_by

pytestmark = pytest.mark.system_long
BULK_MAX = 10_000
LIBC = (
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "libresolv.so.2",
)


@pytest.fixture
def binary(tmp_path) -> Path:
    """The binary of this tree."""
    return built(copy_tree(tmp_path / "tree"))


class Installed:
    """The binary and its data, run without this machine's environment.

    Args:
        before: the words of a command that runs it.
    """

    def __init__(
        self, binary: Path, data: Path, socket: Path, before: tuple[object, ...] = ()
    ) -> None:
        self._words = [*before, "/usr/bin/env", "-i", "PATH=/nonexistent", "VERIFYD_WORKERS=2"]
        self._words += [f"VERIFYD_DATABASE_URL=sqlite:///{data}/verifyd.db"]
        self._words += [f"VERIFYD_STATE_DIR={data}/state", f"VERIFYD_BIND=unix:{socket}", binary]

    def words(self, *words: object) -> list[str]:
        """Return the words that run a command of it."""
        return [str(word) for word in (*self._words, *words)]

    def do(self, *words: object) -> str:
        """Run a command that must succeed, and return its output."""
        ended = subprocess.run(self.words(*words), capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout


def test_all_operations_behind_nginx(binary, tmp_path, socket_directory):
    """With an empty environment, through the shipped site, it answers like the tree."""
    socket = socket_directory / "socket"
    installed = Installed(binary, tmp_path, socket)
    cars = tmp_path / "cars.csv"
    rows = "".join(f"A{number:05},FORD,true\n" for number in range(BULK_MAX))
    cars.write_text(f"registration,make,insured\n{rows}")
    installed.do("migrate")
    installed.do("import", cars)
    installed.do("accounts", "create", "acme", "--plan", "enterprise")
    key = json.loads(installed.do("keys", "create", "acme", "--json"))["key"]
    headers = {"X-API-Key": key, "Content-Type": "application/json"}

    with (
        Service(tmp_path, f"unix:{socket}", installed.words("serve"), workers=2) as service,
        behind_site(f"unix:{socket}", tmp_path) as site,
    ):
        service.wait_ready()

        def ask(method: str, path: str, document: object = None) -> Answer:
            body = json.dumps(document) if document else None
            return send(site, method, path, body=body, headers=headers)

        created = ask("POST", "/api/domains", {"name": "example.com"})
        assert (created.status, created.headers["Location"]) == (201, "/api/domains/example.com")
        assert ask("GET", "/api/domains").json() == {"domains": [created.json()]}
        assert ask("GET", "/api/domains/example.com").json() == created.json()
        assert ask("GET", "/v1/vehicle/A00001/insurance").json()["insured"] is True
        assert ask("GET", "/v1/compliance/A00001").json()["checks"]["insuranceValid"] is True
        plates = {"registrations": [f"A{number:05}" for number in range(BULK_MAX)]}
        bulk = ask("POST", "/v1/vehicle/bulk-insurance", plates).json()
        assert (bulk["processed"], bulk["successful"]) == (BULK_MAX, BULK_MAX)
        too_large = send(site, "POST", "/api/domains", body=b" " * 2_200_000, headers=headers)
        assert (too_large.status, too_large.json()["code"]) == (413, "body_too_large")
        assert "verifyd.py" in ask("GET", "/docs").body.decode()
        for asset in ASSETS.values():
            assert ask("GET", f"/docs/{asset.served_name}").status == 200
        assert_hidden(key, service)

        assert service.stop() == 0
        stopped = ask("GET", "/api/domains")
        assert (stopped.status, stopped.json()["code"]) == (502, "service_unavailable")


def assert_hidden(key: str, service: Service) -> None:
    """Fail if a secret is in the list of processes or in the service's log."""
    processes = b"".join(
        path.read_bytes()
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if os.access(path, os.R_OK)
    )
    assert b"serve" in processes
    assert key.encode() not in processes
    assert key not in service.output("stdout") + service.output("stderr")


def test_its_sbom_has_every_library(binary):
    """The SBOM has every library of a wheel in the binary, and no build tool."""
    sbom = json.loads((binary.parent / "verifyd.cdx.json").read_text())
    validator().validate(sbom)
    digest = hashlib.sha256(binary.read_bytes()).hexdigest()
    assert sbom["metadata"]["component"]["hashes"] == [{"alg": "SHA-256", "content": digest}]
    names = {component["name"] for component in sbom["components"]}
    from_wheels = {Path(name).name for name in contained(binary) if ".libs/" in name}
    assert from_wheels
    assert from_wheels <= names
    assert needed_by(RUN + POSTGRES) | {"pyinstaller", "python", "sqlite", "dompurify"} <= names
    assert names.isdisjoint({"pip", "setuptools", "altgraph", "cyclonedx-python-lib"})


def contained(binary: Path) -> list[str]:
    """Return the names of the files in the binary."""
    script = "import sys; from PyInstaller.archive.readers import CArchiveReader as Reader\n"
    script += "print(*Reader(sys.argv[1]).toc, sep='\\n')"
    words = [str(TOOLS / "python"), "-c", script, str(binary)]
    listed = subprocess.run(words, capture_output=True, text=True, check=True)
    return listed.stdout.splitlines()


@pytest.mark.parametrize("killed", ["the process that was started", "the one it unpacked"])
def test_it_ends_as_a_whole(binary, tmp_path, socket_directory, killed):
    """If any of its processes is killed, all end within a second; the next server starts."""
    socket = socket_directory / "socket"
    installed = Installed(binary, tmp_path, socket)
    installed.do("migrate")
    # The killed process would have removed the unpacked files.
    words = [*installed.words("serve")[:2], f"TMPDIR={tmp_path}", *installed.words("serve")[2:]]
    with Service(tmp_path, f"unix:{socket}", words, workers=2) as service:
        service.wait_ready()
        everyone = [service.process.pid, *descendants(service.process.pid)]
        assert len(everyone) == 4
        os.kill(everyone[0 if killed.startswith("the process") else 1], signal.SIGKILL)
        service.process.wait()
        until(lambda: not any(map(lives, everyone)), "all of it to end", seconds=1)
    with Service(tmp_path, f"unix:{socket}", words, workers=2) as service:
        assert service.wait_ready().stop() == 0


@needs("systemd-tmpfiles", "systemd")
def test_a_cleaner_of_old_files_passes_its_own_by(binary, tmp_path, socket_directory):
    """What is unlocked beside them goes; the service answers, renews its workers and tidies up."""
    socket, temporary = socket_directory / "socket", tmp_path / "temporary"
    temporary.mkdir()
    (tmp_path / "ages.conf").write_text(f"d {temporary} - - - 1s\n")
    installed = Installed(binary, tmp_path, socket)
    installed.do("migrate")
    words = [*installed.words("serve")[:2], f"TMPDIR={temporary}", *installed.words("serve")[2:]]
    with Service(tmp_path, f"unix:{socket}", words, workers=2) as service:
        service.wait_ready()
        (unpacked,) = temporary.iterdir()
        files = set(unpacked.rglob("*"))
        other = temporary / "other"
        other.mkdir()
        (other / "file").touch()

        def is_cleaned() -> bool:
            words = ["systemd-tmpfiles", "--clean", tmp_path / "ages.conf"]
            subprocess.run(words, check=True)
            return not other.exists()

        until(is_cleaned, "the old files to be removed")
        assert set(unpacked.rglob("*")) == files
        former = set(service.workers())
        os.kill(next(iter(descendants(service.process.pid))), signal.SIGHUP)
        until(lambda: former.isdisjoint(service.workers()), "the workers to be renewed")
        for path in ("/readyz", "/docs", "/docs/try"):
            assert service.wait_ready().get(path).status == 200
        assert service.stop() == 0
    assert list(temporary.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can change the root directory")
def test_it_serves_in_an_empty_root(binary, tmp_path, socket_directory):
    """Installed with `--prefix`, it needs only the C library and `env`; no rules of time zones."""
    root = socket_directory / "root"
    for _ in range(2):
        words = [ROOT / "deploy" / "install.sh", "--prefix", root, "--binary", binary]
        subprocess.run(words, check=True, capture_output=True)
    for path in ("proc", "tmp", "usr/bin"):
        (root / path).mkdir(parents=True)
    for name in ("verifyd.cdx.json", "verifyd.licenses.txt"):
        laid_out = root / "opt" / "verifyd" / "current" / name
        assert laid_out.read_bytes() == (binary.parent / name).read_bytes()
    put_with_libraries(root, "/usr/bin/env", str(binary))
    # The mount belongs to the process, and ends with it.
    enter = f"mount -t proc proc {root}/proc && exec chroot {root} " + '"$@"'
    before = ("unshare", "--mount", "sh", "-c", enter, "sh")
    program = Path("/opt/verifyd/current/verifyd")
    installed = Installed(
        program, Path("/var/lib/verifyd"), Path("/var/lib/verifyd/socket"), before
    )
    installed.do("migrate")
    zone = {"name": "UTC", "host": None, "tzdata": time_zones.PACKAGE.version}
    assert json.loads(installed.do("check", "--json"))["time_zone"] == zone
    bind = f"unix:{root}/var/lib/verifyd/socket"
    with Service(tmp_path, bind, installed.words("serve"), workers=2) as service:
        service.wait_ready()
        assert send(bind, "GET", "/healthz").status == 200
        assert send(bind, "GET", "/api/domains").status == 401
        assert service.stop() == 0


def put_with_libraries(root: Path, *programs: str) -> None:
    """Copy the C library, the programs' needs, and the first program into a root."""
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    libraries = {Path(path) for path in re.findall(r"(/\S+\.so\S*) \(", listed)}
    (libc,) = (path for path in libraries if path.name == "libc.so.6")
    for path in {Path(programs[0]), *libraries, *map(libc.with_name, LIBC)}:
        target = root / str(path).lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
