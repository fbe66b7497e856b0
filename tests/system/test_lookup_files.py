"""`verifyd lookup --csv` as a process: pipes, full disks, Ctrl-C, a terminal, loads."""

import csv
import os
import pty
import re
import signal
import subprocess
import sys
import termios

import pytest

from tests.system.processes import environment, run_command, until
from tests.system.test_load_progress import everything_of

LOOKUP = (sys.executable, "-m", "app", "lookup", "--csv")
LINES = 50_000


@pytest.fixture
def given(world):
    """A file that takes a while, and the settings for its look-up."""
    world.load([{"registration": "AB12CDE", "make": "FORD"}])
    file = world.directory / "given.csv"
    file.write_text("plate\n" + "AB12CDE\n" * LINES)
    return file


@pytest.fixture
def begun(world, given):
    """Start a look-up in its own process."""
    processes = []

    def begin(*words, **streams):
        settings = {"database_url": world.config.database_url, "state_dir": world.config.state_dir}
        process = subprocess.Popen(
            [*LOOKUP, *map(str, words)], env=environment(**settings), **streams
        )
        processes.append(process)
        return process

    yield begin
    for process in processes:
        with process:
            process.kill()


def is_written(world, size):
    """Tell whether this much of the output is in its temporary file."""
    return any(part.stat().st_size > size for part in world.directory.glob(".b.csv.*.part"))


def test_a_full_disk_is_reported_in_one_line(begun, given):
    """The line has the reason, without a stack, and nothing follows it."""
    with open("/dev/full", "wb") as full:
        process = begun(given, stdout=full, stderr=subprocess.PIPE)
        _, told = process.communicate()
    assert process.returncode == 1
    assert told == b"stdout cannot be written: No space left on device\n"


def test_a_full_disk_leaves_no_files(begun, given, little_disk):
    """An existing output file stays as it was."""
    output = little_disk / "b.csv"
    output.write_text("old")
    process = begun(given, "--output", output, stderr=subprocess.PIPE)
    _, told = process.communicate()
    assert process.returncode == 1
    assert told.decode() == f"{output} cannot be written: No space left on device\n"
    assert [(path.name, path.read_text()) for path in little_disk.iterdir()] == [("b.csv", "old")]


def test_a_reader_may_have_seen_enough(begun, given):
    """If its reader ends, as `head` does, the process ends silently."""
    process = begun(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout.readline().startswith(b"plate,verifyd_result")
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 1


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.system_long)]
)
def test_an_interrupted_look_up_leaves_no_files(world, begun, given, number):
    """Neither the output nor a temporary file remains."""
    output = world.directory / "b.csv"
    process = begun(given, "--output", output, stderr=subprocess.PIPE)

    until(lambda: is_written(world, 10_000), "the first answers")
    process.send_signal(number)
    _, told = process.communicate()
    assert (process.returncode, told) == (128 + number, b"interrupted\n")
    assert list(world.directory.glob("*b.csv*")) == []


@pytest.mark.system_long
def test_progress_is_shown(world, begun, given):
    """A terminal shows percentage, plates per second and the time left."""
    ours, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 120))
    process = begun(given, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    states = re.split(r"[\r\n]+", everything_of(ours))
    assert process.wait() == 0
    shown = [line for line in states if "plates/s" in line]
    assert re.search(r"100%.*400k/400k .*B/s, [\d,]+ plates/s", shown[-1]), states
    assert [line for line in shown if re.search(r"\[\d\d:\d\d<\d\d:\d\d", line)], "the time left"


@pytest.mark.system_long
def test_it_works_while_the_service_and_loads_run(world, served, begun, given):
    """Each line has the state before or after a load, and the change is reported."""
    output = world.directory / "b.csv"
    process = begun(given, "--output", output, stdout=subprocess.PIPE)
    until(lambda: is_written(world, 10_000), "the first answers")
    process.send_signal(signal.SIGSTOP)
    file = world.directory / "cars.csv"
    file.write_text("registration,make\nAB12CDE,OPEL\n")
    settings = {"database_url": world.config.database_url, "state_dir": world.config.state_dir}
    loaded = run_command("import", file, "--mode", "replace", **settings)
    assert loaded.returncode == 0, loaded.stderr
    process.send_signal(signal.SIGCONT)
    told, _ = process.communicate()
    assert process.returncode == 0
    assert b"loadedMeanwhile  native\n" in told
    makes = [row["verifyd_make"] for row in csv.DictReader(output.read_text().splitlines())]
    assert makes == ["FORD"] * makes.count("FORD") + ["OPEL"] * (LINES - makes.count("FORD"))
    assert set(makes) == {"FORD", "OPEL"}
    assert served.get("/v1/vehicle/AB12CDE/insurance").json()["vehicle"]["make"] == "OPEL"
