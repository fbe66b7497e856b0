"""`verifyd demo --serve`, as `make run` runs it: once at a time, and nothing is lost."""

import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.system.processes import (
    DEADLINE_SECONDS,
    ROOT,
    Service,
    descendants,
    environment,
    free_port,
    lives,
    run_command,
    send,
    until,
)

COMMAND = (sys.executable, "-m", "app", "demo", "--serve")


@pytest.fixture
def place(tmp_path: Path) -> dict[str, Any]:
    """Settings of a demo in a directory that does not exist yet, with a space in its name."""
    database = tmp_path / "my demo" / "verifyd.db"
    bind = f"127.0.0.1:{free_port()}"
    return {"database_url": f"sqlite:///{database}", "bind": bind, "workers": 2}


@pytest.fixture
def serve(tmp_path: Path, place: dict[str, Any]) -> Iterator[Callable[[], Service]]:
    """Start the demo, and read the key that it prints; it ends with the test."""
    started: list[Service] = []

    def start() -> Service:
        settings = {name: value for name, value in place.items() if name != "bind"}
        service = Service(tmp_path, place["bind"], COMMAND, is_warm=True, **settings)
        started.append(service)
        service.wait_ready()
        until(lambda: "The demo answers at" in service.output("stdout"), "the last line")
        (service.key,) = re.findall("(?m)^export KEY=(.*)$", service.output("stdout"))
        return service

    yield start
    for service in started:
        service.kill()


def make_of(service: Service, plate: str) -> object:
    """Return the make of a vehicle, None if no register knows its plate."""
    answer = service.get(f"/v1/vehicle/{plate}/insurance")
    return answer.json()["vehicle"]["make"] if answer.status == 200 else None


def state_of(directory: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of change of the files that hold a demo."""
    found = [directory / "verifyd.db", directory / "access.log", *directory.glob("*register*.db")]
    return {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


def are_ready(master: int, workers: int) -> bool:
    """Tell whether all workers handle signals: each ignores INT, and leaves it to the master."""
    found = list(descendants(master))
    return len(found) == workers and all(map(ignores_ctrl_c, found))


def ignores_ctrl_c(pid: int) -> bool:
    """Tell whether a process ignores INT."""
    (ignored,) = re.findall("(?m)^SigIgn:\\s*(.*)$", Path(f"/proc/{pid}/status").read_text())
    return bool(int(ignored, 16) & 1 << (signal.SIGINT - 1))


@pytest.mark.system_long
def test_the_access_log_goes_to_the_file_that_is_named(serve):
    """The terminal has no JSON; the access log is in the file, and empty after a new start."""
    service = serve()
    assert make_of(service, "AB12CDE") == "Ford"
    (name,) = re.findall("(?m)^Access log +(/.*)$", service.output("stdout"))
    assert '"route":"/v1/vehicle/{registration}/insurance"' in Path(name).read_text()
    assert (service.stop(), service.output("stderr")) == (0, "")
    assert not re.search(r"(?m)^\s*\{", service.output("stdout"))
    serve()
    assert "insurance" not in Path(name).read_text()


def test_the_readme_shows_what_is_printed(serve, place):
    """Every line of `make run` in the README is printed, in this order."""
    (shown,) = re.findall(r"(?ms)^\$ make run\n(.*?)^```", (ROOT / "README.md").read_text())
    # As in the Makefile.
    place |= {"console": "on", "audit": "on", "complete_registers": "demo"}
    printed = lasting(serve().output("stdout").replace(place["bind"], "127.0.0.1:8000"))
    for part in lasting(shown).split("...\n"):
        assert part in printed
        printed = printed.partition(part)[2]


def test_the_demo_answers_when_it_says_so(place):
    """Who waits for the last line, or for the links, and connects at once gets an answer."""
    command = subprocess.Popen(
        COMMAND, env=environment(**place | {"console": "on"}), stdout=subprocess.PIPE, text=True
    )
    try:
        told = []
        assert command.stdout
        for line in command.stdout:
            told.append(line)
            if line.startswith(("Documentation", "The demo answers at")):
                assert send(place["bind"], "GET", "/healthz").status == 200
            if line.startswith("The demo answers at"):
                break
        assert told[-1].endswith(f"or: kill {command.pid}\n")
    finally:
        command.terminate()
        rest = command.communicate(timeout=DEADLINE_SECONDS)[0]
    assert (rest, command.returncode) == ("", 0)


def test_a_demo_that_dies_at_its_start_claims_nothing(place):
    """If its workers cannot start, neither keys nor links are printed."""
    program = "import app.server as s; s.create_app = None; from app.cli import main; main()"
    ended = subprocess.run(
        [sys.executable, "-c", program, "demo", "--serve"],
        env=environment(**place),
        capture_output=True,
        text=True,
        check=False,
    )
    assert "NoneType" in ended.stderr
    assert ended.stdout == ""


def test_a_demo_that_cannot_start_says_only_why(place, tmp_path):
    """The reason is what is shown last, and with `--json` the only document on stdout."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "metrics").touch()
    place["state_dir"] = tmp_path / "state"
    for words in ([], ["--json"]):
        ended = subprocess.run(
            [*COMMAND, *words],
            env=environment(**place),
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 1
        assert "the metrics cannot be kept" in ended.stderr
        if not words:
            assert ended.stdout == ""
    assert json.loads(ended.stdout)["status"] == "failed"


def lasting(text: str) -> str:
    """Return what was printed without the key and paths."""
    text = re.sub("vfd_[A-Za-z0-9_]+", "vfd_KEY", text)
    text = re.sub("(?m)^export (VERIFYD_[A-Z_]+|PATH)=.*\n", "", text)
    text = re.sub("(?m)^# .* import ", "# PROGRAM import ", text)
    text = re.sub("kill [0-9]+", "kill PID", text)
    text = re.sub("sign-in/[A-Za-z0-9]+", "sign-in/TOKEN", text)
    return re.sub("(?m)^Access log( +)/.*", r"Access log\1FILE", text)


def test_a_second_demo_changes_nothing(serve, place, tmp_path):
    """It ends with 1 and says that one is running, also at another address; the key works on."""
    service = serve()
    before = state_of(tmp_path / "my demo")
    for bind in (place["bind"], f"127.0.0.1:{free_port()}"):
        second = run_command(*COMMAND[3:], **place | {"bind": bind})
        assert (second.returncode, second.stdout) == (1, "")
        assert "the demo is running already; nothing was changed" in second.stderr
    assert state_of(tmp_path / "my demo") == before
    assert make_of(service, "AB12CDE") == "Ford"


def test_the_address_is_checked_first(place, tmp_path):
    """If another program uses the port, the message names another one; nothing is created."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", int(place["bind"].rpartition(":")[2])))
        other.listen()
        ended = run_command(*COMMAND[3:], **place)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert f"another program listens at {place['bind']}" in ended.stderr
    assert re.search("use another address, such as VERIFYD_BIND=127.0.0.1:[0-9]+$", ended.stderr)
    assert not (tmp_path / "my demo").exists()


def test_an_address_of_another_host_is_named(place, tmp_path):
    """An address that this host does not have is refused at once, and nothing is created."""
    ended = run_command(*COMMAND[3:], **place | {"bind": "192.0.2.1:8000"})
    assert "VERIFYD_BIND: 192.0.2.1:8000 cannot be used: Cannot assign" in ended.stderr
    assert (ended.returncode, (tmp_path / "my demo").exists()) == (1, False)


def test_a_database_of_real_accounts_is_refused(place, tmp_path):
    """Nothing of an installation is touched, not even a file that has the name of the log."""
    settings = {"database_url": place["database_url"]}
    (tmp_path / "my demo").mkdir()
    run_command("migrate", **settings)
    run_command("accounts", "create", "acme", **settings)
    (tmp_path / "my demo" / "access.log").write_text("of somebody")
    ended = run_command(*COMMAND[3:], **place)
    assert "this database has real accounts or registers" in ended.stderr
    assert (tmp_path / "my demo" / "access.log").read_text() == "of somebody"


@pytest.mark.system_long
def test_what_was_loaded_stays(serve, tmp_path):
    """The command that is printed loads a file from any directory; it is there after a restart."""
    service = serve()
    exports = re.findall("(?m)^export VERIFYD_.*$", service.output("stdout"))
    (line,) = re.findall("(?m)^# (.* import) FILE$", service.output("stdout"))
    (tmp_path / "own.csv").write_text("registration,make\nOWN1,LADA\n")
    command = ["sh", "-c", "\n".join([*exports, f"{line} own.csv"])]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    assert make_of(service, "OWN1") == "LADA"
    service.stop()
    again = serve()
    assert again.key != service.key
    assert (make_of(again, "OWN1"), make_of(again, "AB12CDE")) == ("LADA", "Ford")


def test_a_killed_demo_can_be_started_again_at_once(serve):
    """Workers of a killed master end by themselves, and no lock is left."""
    service = serve()
    workers = service.workers()
    os.kill(service.process.pid, signal.SIGKILL)
    service.process.wait()
    assert make_of(serve(), "AB12CDE") == "Ford"
    assert not any(map(lives, workers))


def test_ctrl_c_ends_it_without_a_word(place):
    """At a terminal Ctrl-C reaches master and workers; none of them is killed by a signal."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        COMMAND,
        env=environment(**place),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    os.close(slave)

    until(lambda: are_ready(process.pid, place["workers"]), "the workers to handle signals")
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(DEADLINE_SECONDS) == 0
    shown = os.read(master, 65_536).decode()
    os.close(master)
    last = shown.rstrip().splitlines()[-1]
    url = f"http://{place['bind']}"
    told = f"The demo answers at {url} until you press Ctrl-C here, or: kill {process.pid}"
    assert last == told


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_directory_of_another_user_is_refused(place, tmp_path):
    """The message names the directory, and how to use another one."""
    place["database_url"] = f"sqlite:///{tmp_path / 'there' / 'demo' / 'verifyd.db'}"
    (tmp_path / "there").mkdir(mode=0o755)
    script = (
        "import os; from app.cli.demo import claim; from app.config import Config; "
        "config = Config.from_env(); os.seteuid(65534); claim(config)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", script],
        env=environment(**place),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert str(tmp_path / "there") in ended.stderr
    assert "cannot be used: Permission denied" in ended.stderr
    assert "make run DEMO=" in ended.stderr


@pytest.mark.system_long
@pytest.mark.skipif(
    not shutil.which("make") or not (ROOT / ".venv" / ".installed").exists(),
    reason="the environment was not made by make",
)
def test_make_run_serves_the_demo(place, tmp_path):
    """`make run DEMO=DIR` has its files there; what it prints runs short commands and ends it."""
    directory = tmp_path / "a demo"
    make = ["make", "-C", str(ROOT), "-o", ".venv/.installed", "run", f"DEMO={directory}"]
    with Service(tmp_path, place["bind"], make, workers=2) as service:
        until(lambda: "Ctrl-C" in service.output("stdout"), "the demo to be prepared")
        until((directory / "access.log").exists, "the access log")
        second = subprocess.run(
            make, env=environment(bind=place["bind"]), capture_output=True, text=True, check=False
        )
        assert "the demo is running already; nothing was changed" in second.stderr
        printed = service.output("stdout")
        (link,) = re.findall("(?m)^Console        (.*/console/sign-in/.*)$", printed)
        with urllib.request.urlopen(link) as page:
            assert b"Sign in to the console" in page.read()
        exports = re.findall("(?m)^export (?:VERIFYD_|PATH).*$", printed)
        for line, told in {
            "verifyd lookup --json AB12CDE": '"Ford"',
            "verifyd console link --as ann --role clerk": f"{link.partition('/sign-in/')[0]}/sign-",
            "verifyd audit search --plate AB12CDE": "AB12CDE",
        }.items():
            found = subprocess.run(
                ["sh", "-c", "\n".join([*exports, line])],
                cwd=tmp_path,
                env=environment(),
                capture_output=True,
                text=True,
                check=True,
            )
            assert told in found.stdout
        (pid,) = re.findall(r"or: kill (\d+)$", printed.rstrip())
        os.kill(int(pid), signal.SIGTERM)
        assert service.wait() == 0
