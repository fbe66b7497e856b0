"""All log lines are text if stderr is a terminal, and JSON otherwise."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
from typing import Any

from tests.system.drop import CAR
from tests.system.processes import (
    GUNICORN,
    ROOT,
    SERVE,
    environment,
    free_port,
    run_command,
)

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (info|warning|error|critical): .")
FAULTY = """
import sys, threading, warnings
from app import __main__
from app.cli import notify

def run(_args):
    warnings.warn("old habits", stacklevel=1)
    thread = threading.Thread(target=lambda: int("AB12CDE"))
    thread.start()
    thread.join()
    int("AB12CDE")

notify.require_owner = run
sys.argv[1:] = ["watch"]
__main__.run()
"""
BROKEN = """
import sys
from app import cli, server

def create_app(*_args):
    raise ValueError("broken by the test")

server.create_app = create_app
sys.exit(cli.main(["serve"]))
"""


def settings_of(world) -> dict[str, Any]:
    """Return the settings of a world."""
    return {"database_url": world.config.database_url, "state_dir": world.config.state_dir}


def lines_of(text: str) -> list[dict[str, str]]:
    """Return the lines of a log; each must be a JSON object."""
    return [json.loads(line) for line in text.splitlines()]


def shown(*words: str, seconds: float = 30, **settings: Any) -> tuple[int, list[str]]:
    """Run a command at a terminal; return its status and its lines on stderr."""
    ours, terminal = pty.openpty()
    process = subprocess.Popen(
        words, env=environment(**settings), stdout=subprocess.DEVNULL, stderr=terminal
    )
    os.close(terminal)
    written, is_stopped = b"", False
    while True:
        try:
            written += os.read(ours, 65_536)
        except OSError:  # The other end was closed.
            break
        if b"Booting worker" in written and not is_stopped:
            is_stopped = True
            process.send_signal(signal.SIGTERM)
    os.close(ours)
    return process.wait(seconds), re.split(r"[\r\n]+", written.decode().strip())


def test_below_gunicorn_a_service_that_cannot_start_logs_why(world):
    """The reason is one JSON line, even before any worker runs."""
    settings = settings_of(world) | {"bind": f"127.0.0.1:{free_port()}"}
    world.engine.execute_sql("UPDATE installation SET schema_version = 99, oldest_program = 99")
    ended = subprocess.run(
        GUNICORN, env=environment(**settings), capture_output=True, text=True, check=False
    )
    assert ended.returncode
    told = [line for line in lines_of(ended.stderr) if line["level"] in ("error", "critical")]
    assert "newer" in told[0]["message"], ended.stderr


def test_serve_prints_why_it_cannot_start(world):
    """Somebody starts it, and reads a sentence: about its database, or about its settings."""
    settings = settings_of(world) | {"bind": f"unix:{world.directory}/none/x.sock"}
    ended = run_command("serve", **settings)
    assert (ended.returncode, ended.stderr) == (
        1,
        f"VERIFYD_BIND: the directory {world.directory}/none does not exist: create it first\n",
    )
    settings["bind"] = f"127.0.0.1:{free_port()}"
    world.engine.execute_sql("UPDATE installation SET schema_version = 99, oldest_program = 99")
    ended = subprocess.run(
        SERVE, env=environment(**settings), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "newer" in ended.stderr
    assert "{" not in ended.stderr


def test_a_service_whose_workers_fail_logs_only_json(world):
    """Gunicorn writes some of its errors directly to stderr."""
    settings = settings_of(world) | {"bind": f"127.0.0.1:{free_port()}", "workers": 1}
    ended = subprocess.run(
        [sys.executable, "-c", BROKEN],
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = lines_of(ended.stderr)
    assert ended.returncode
    assert "Exception in worker process" in [line["message"] for line in lines]
    assert "broken by the test" in [line["message"] for line in lines]


def test_a_service_at_a_terminal_logs_text(world):
    """All lines are text, from the first to the last."""
    settings = settings_of(world) | {"bind": f"127.0.0.1:{free_port()}", "workers": 1}
    status, lines = shown(*SERVE, **settings)
    assert (status, len(lines) > 3) == (0, True)
    assert [line for line in lines if not LINE.match(line)] == []


def test_a_load_at_a_terminal_logs_text(world, drop):
    """The import of a directory logs text, too, with its warnings and its final reason."""
    drop.put("a.csv", "nonsense\n")
    drop.put("b.csv")
    words = [sys.executable, "-m", "app", *map(str, drop.words())]
    status, lines = shown(*words, **settings_of(world))
    told = [line.strip("\x1b[A") for line in lines if "rows/s" not in line and "it/s" not in line]
    assert status == 1
    assert not [line for line in told if line.startswith("{")]
    levels = [found[1] for line in told if (found := LINE.match(line))]
    assert {"info", "warning"} <= set(levels)
    assert told[-1].startswith("not everything in "), told[-1]


def test_jobs_log_why_they_fail(world, drop):
    """Nobody watches timers, so each of their lines is JSON if stderr is no terminal."""
    drop.put("a.csv", "nonsense\n")
    drop.put("b.csv", CAR)
    ended = drop.run("--scheduled")
    assert [line["level"] for line in lines_of(ended.stderr)][-1] == "error"
    nowhere = world.directory / "none" / "backups"
    ended = run_command("backup", nowhere, "--scheduled", **settings_of(world))
    (line,) = lines_of(ended.stderr)
    assert (line["level"], "does not exist" in line["message"]) == ("error", True)


def test_an_unexpected_error_is_one_line_without_its_message(world):
    """The message could quote a record. A job logs warnings and errors of threads alike."""
    command = [sys.executable, "-c", FAULTY]
    ended = subprocess.run(
        command,
        env=environment(**settings_of(world)),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = lines_of(ended.stderr)
    assert ended.returncode == 1
    assert "AB12CDE" not in ended.stderr
    assert [line["level"] for line in lines] == ["warning", "error", "error"]
    assert "old habits" in lines[0]["message"]
    assert [line.get("exception") for line in lines] == [None, "ValueError", "ValueError"]
    assert any("in run" in each or " run" in each for each in lines[2]["stack"])
    status, told = shown(*command, **settings_of(world))
    assert status == 1
    assert "Traceback" not in "".join(told)
    assert [line for line in told if line.endswith("error: unexpected ValueError")]


def test_a_forked_process_leaves_no_warning_of_its_progress_bar():
    """A process that ends at once after a progress bar writes nothing, as Python 3.14 starts it."""
    script = (
        "import multiprocessing, os; multiprocessing.set_start_method('forkserver'); "
        "from app.cli.progress import progress; progress().close(); os._exit(0)"
    )
    command = (sys.executable, "-c", script)
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
