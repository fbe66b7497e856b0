"""Log lines are written whole, and never block a request."""

import fcntl
import json
import logging
import os
import re
import socket
from pathlib import Path

import pytest

from app import clock, logs
from app.logs import LineWriter, take_dropped
from tests.rows import each_row

LINE = b'{"event":"request"}' + b" " * 80 + b"\n"


@pytest.fixture(autouse=True)
def nothing_dropped():
    """Ignore the lines that other tests dropped."""
    take_dropped()


@pytest.fixture
def pipe():
    """The two ends of a pipe with room for one page."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    yield reader, writer
    os.close(reader)
    os.close(writer)


@pytest.fixture
def sockets():
    """Two connected sockets, like those of systemd's journal and a service."""
    reader, writer = socket.socketpair()
    writer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with reader, writer:
        yield reader.fileno(), writer.fileno()


def fill(writer, line=LINE):
    """Write lines until one is dropped; return how many were written."""
    taken = 0
    while not take_dropped():
        writer.write(line)
        taken += 1
    return taken - 1


@pytest.mark.parametrize("ends", ["pipe", "sockets"])
def test_a_stalled_reader_is_not_waited_for(request, ends):
    """Lines are dropped and counted while the reader stalls; earlier lines stay whole."""
    reader, descriptor = request.getfixturevalue(ends)
    writer = LineWriter(descriptor)
    taken = fill(writer)
    writer.write(LINE)
    writer.write(LINE)
    assert take_dropped() == 2
    assert os.read(reader, 1 << 20) == LINE * taken
    writer.write(LINE)
    assert (take_dropped(), os.read(reader, 1 << 20)) == (0, LINE)


def test_a_line_that_was_begun_is_finished(pipe):
    """A line longer than the pipe continues where it stopped, before any other line."""
    reader, descriptor = pipe
    writer, long = LineWriter(descriptor), b"x" * 6_000 + b"\n"
    writer.write(long)
    writer.write(LINE)
    first = os.read(reader, 1 << 20)
    assert take_dropped() == 1
    writer.write(LINE)
    assert first + os.read(reader, 1 << 20) == long + LINE


def test_lines_are_written_together_as_far_as_a_pipe_takes_them_whole(monkeypatch):
    """So the lines of several workers on one pipe do not mix."""
    written = []
    writer = LineWriter(2)

    def take(data):
        written.append(data)
        return len(data)

    monkeypatch.setattr(writer, "_write_now", take)
    lengths = [100] * 50 + [5_000] + [4_095, 1] * 2
    lines = [b"x" * (length - 1) + b"\n" for length in lengths]
    writer.write_lines(lines)
    assert b"".join(written) == b"".join(lines)
    assert [len(piece) for piece in written] == [4_000, 1_000, 5_000, 4_096, 4_096]


@each_row("taken", [0, 1, 99, 100, 101, 250, 299])
def test_each_line_that_is_dropped_counts(monkeypatch, taken):
    """Of lines that are taken in part, the one that was begun is finished, and the rest dropped."""
    lines = [bytes([letter]) * 99 + b"\n" for letter in b"abc"]
    received = b""
    room = taken

    def take(data):
        nonlocal received, room
        part, room = data[:room], 0
        received += part
        return len(part)

    writer = LineWriter(2)
    monkeypatch.setattr(writer, "_write_now", take)
    writer.write_lines(lines)
    begun = -(-taken // 100)
    assert take_dropped() == 3 - begun
    room = 1_000
    writer.write(LINE)
    assert received == b"".join(lines[:begun]) + LINE


def test_the_original_descriptor_stays_blocking(pipe):
    """The original descriptor stays blocking for other processes."""
    writer = LineWriter(pipe[1])
    fill(writer)
    assert os.get_blocking(pipe[1])


def test_one_warning_reports_dropped_lines(pipe, caplog):
    """The operator gets one warning per minute, however many lines are dropped."""
    writer = LineWriter(pipe[1])
    with caplog.at_level(logging.WARNING, "verifyd.logs"):
        fill(writer)
        for _ in range(100):
            writer.write(LINE)
    assert [record.getMessage() for record in caplog.records] == [
        f"log lines for {pipe[1]} cannot be written now: they are dropped and counted"
    ]


def test_the_number_of_dropped_lines_is_logged(pipe, caplog, monkeypatch):
    """The count is logged when lines can be written and the last warning is a minute old."""
    reader, descriptor = pipe
    writer = LineWriter(descriptor)
    fill(writer)
    for _ in range(100):
        writer.write(LINE)
    os.read(reader, 1 << 20)
    caplog.clear()
    now_ns = clock.monotonic_ns()
    monkeypatch.setattr(clock, "monotonic_ns", lambda: now_ns + 61_000_000_000)
    writer.write(LINE)
    assert "100 log lines for" in caplog.text


def test_a_closed_descriptor_drops_every_line():
    """A file that later gets the same descriptor number is not written to."""
    reader, descriptor = os.pipe()
    os.close(descriptor)
    writer = LineWriter(descriptor)
    writer.write(LINE)
    os.close(reader)
    assert take_dropped() == 1


def test_a_reader_that_is_gone_drops_every_line(pipe):
    """If the reader is gone, lines are dropped and the service continues."""
    writer = LineWriter(pipe[1])
    gone, other = os.pipe()
    os.close(gone)
    broken = LineWriter(other)
    broken.write(LINE)
    writer.write(LINE)
    os.close(other)
    assert take_dropped() == 1


def test_stderr_is_written_the_same_way(capfd):
    """Any log record is one JSON line on stderr."""
    handler = logs.StderrHandler()
    handler.setFormatter(logs.JsonFormatter())
    handler.emit(logging.LogRecord("x", logging.INFO, "", 0, "caf\u00e9 \udc80", (), None))
    assert json.loads(capfd.readouterr().err)["message"].startswith("caf\u00e9")


def test_a_terminal_gets_text_that_cannot_steer_it():
    """A terminal gets time, level, message and stack, with control characters escaped."""
    record = logging.LogRecord("x", logging.WARNING, "", 0, "bad \x1b[2J\n caf\u00e9", (), None)
    record.created = 0.0
    record.request_id = "4dfa"
    text = logs.TextFormatter().format(record)
    assert text == "1970-01-01T00:00:00Z warning: bad \\x1b[2J\n caf\u00e9 (request 4dfa)"
    try:
        int("AB12CDE")
    except ValueError as error:
        record.exc_info = (type(error), error, error.__traceback__)
    told = logs.TextFormatter().format(record)
    assert "\n  " in told
    assert "AB12CDE" not in told


def test_text_of_libraries_on_stderr_is_logged(caplog):
    """Text from libraries is logged by line, however it is written; blank lines are left out."""
    stream = logs.StderrLines()
    with caplog.at_level(logging.WARNING, "verifyd.logs"):
        print("one\n\ntwo", file=stream)
        print("thr", end="", file=stream)
        print("ee", file=stream)
    assert [record.getMessage() for record in caplog.records] == ["one", "two", "three"]


def test_loggers_have_the_prefix_whose_level_a_job_raises():
    """Each logger is `verifyd.` and one word, so that `progress_log` raises the level of all."""
    found = [
        name
        for path in Path(logs.__file__).parent.rglob("*.py")
        for name in re.findall(r'getLogger\("([^"]+)"\)', path.read_text())
    ]
    others = {name for name in found if not re.fullmatch(r"verifyd\.[a-z]+", name)}
    assert others == {"verifyd", "gunicorn.error"}
