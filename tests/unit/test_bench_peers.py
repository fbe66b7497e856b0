"""The benchmark beside other stacks: its reports, its check of answers, and its steady client."""

import csv
import json
import os
import subprocess
import sys
import threading
from datetime import UTC
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from xml.etree import ElementTree

import msgspec
import pytest

from app import clock
from app.registers.demo import demo_register
from tests.bench.peers.__main__ import as_json
from tests.bench.peers.answers import LIMIT_HEADERS, differences
from tests.bench.peers.chart import chart
from tests.bench.peers.contestants import KNOWN
from tests.bench.peers.data import CASES, write_files
from tests.bench.peers.report import fill, part_rows, table, text_report
from tests.bench.peers.results import Machine, Options, Results
from tests.bench.peers.steady import ask_steadily, percentile_ms
from tests.bench.peers.targets import verdicts
from tests.rows import each_row
from tests.system.processes import ROOT, Answer

FREE_MEMBERS = {"request_id": "2", "detail": "Another sentence.", "error": "Yet another."}


def sample(answers_per_second, p99_ms=1.0):
    """Return the figures of one round."""
    return {
        "answers_per_second": answers_per_second,
        "p50_ms": p99_ms / 2,
        "p99_ms": p99_ms,
        "cpu_us": 100.0,
        "memory_mb": 70.0,
    }


@pytest.fixture
def results():
    """Recorded figures of three rounds: verifyd is slower than Fastify, and faster than Flask."""
    return Results(
        Machine("A processor", 2, 8, "6.1", "3.12.1", 0.5),
        Options(1_000, 10, 3, 2, 16, 500, (100, 1_000)),
        {
            "lookup": {
                "verifyd": [sample(3_000), sample(900), sample(3_100)],
                "flask": [sample(300), sample(290), sample(310)],
                "fastify-log": [sample(6_000), sample(7_000), sample(5_000)],
                "before": [sample(2_000), sample(2_000), sample(2_000)],
            },
            "rate": {"verifyd": [sample(500, p99_ms=4)], "flask": [sample(500, p99_ms=8)]},
            "growth": {"100": [sample(1)], "1000": [sample(1, p99_ms=1.4)]},
        },
        {"fastapi": "it could not be installed"},
    )


def answer(status=200, headers=LIMIT_HEADERS, **members):
    """Return an answer of a contestant."""
    message = Message()
    for name in headers:
        message[name.lower()] = "1"
    return Answer(status, message, json.dumps(members).encode())


class TestReport:
    def test_a_table_has_the_medians_of_the_rounds(self, results):
        """A slow round does not change the figure."""
        header, verifyd, *_ = part_rows(results, "lookup")
        assert header[:2] == ["", "answers/s"]
        assert verifyd[:2] == ["verifyd", "3,000"]

    def test_the_text_tells_machine_parts_and_who_was_left_out(self, results):
        """A reader sees where it was measured, what, and what is missing."""
        text = text_report(results)
        assert "A processor, 2 cores" in text
        assert "1,000 vehicles" in text
        assert f"Left out: {KNOWN['fastapi'].title}: it could not be installed" in text

    @pytest.mark.parametrize(
        ("title", "measured", "outcome"),
        [
            ("look-ups: ratio to Fastify, log on", "0.50", "not met"),
            ("look-ups: ratio to Flask", "10.00", "not met"),
            ("look-ups: ratio to FastAPI", "", "not measured"),
            ("p99, same rate: ratio to Flask", "0.50", "met"),
            ("median look-up: ratio of a large register to a small one", "1.40", "met"),
        ],
    )
    def test_a_target_is_met_missed_or_not_measured(self, results, title, measured, outcome):
        """A ratio of medians is compared with its bound; nothing is invented where it lacks."""
        (verdict,) = [each for each in verdicts(results) if each.title == title]
        assert (verdict.measured, verdict.outcome) == (measured, outcome)

    def test_json_can_be_read_again(self, results):
        """The file has all figures, the medians and the verdicts."""
        written = as_json(results)
        assert msgspec.json.decode(written, type=Results) == results
        document = json.loads(written)
        assert document["medians"]["lookup"]["flask"]["answers_per_second"] == 300
        assert len(document["targets"]) == len(list(verdicts(results)))

    def test_the_chart_is_a_picture_with_a_bar_for_each(self, results):
        """The SVG names each contestant of today with its figure, and loads nothing."""
        drawn = chart(results)
        tree = ElementTree.fromstring(drawn)
        texts = {element.text for element in tree.iter() if element.text}
        for name, figure in {"verifyd": "3,000", "flask": "300", "fastify-log": "6,000"}.items():
            assert f"{KNOWN[name].title}: {figure}" in texts
        assert KNOWN["before"].title not in drawn
        assert "href=" not in drawn

    def test_blocks_of_a_page_are_filled_again_and_again(self, results, tmp_path):
        """What is between the comments is replaced, and nothing else."""
        page = tmp_path / "page.md"
        page.write_text("before\n<!-- bench-peers: table -->\nold\n<!-- end -->\nafter\n")
        for _ in range(2):
            fill(page, {"table": table(results)})
        text = page.read_text()
        assert text.startswith("before\n<!-- bench-peers: table -->\n|  | look-ups/s |")
        assert text.endswith("\n<!-- end -->\nafter\n")
        assert text.count("| **verifyd** | 3,000 |") == 1
        assert "old" not in text

    def test_a_page_without_a_block_is_refused(self, tmp_path):
        """A page that would stay as it is is an error."""
        page = tmp_path / "page.md"
        page.write_text("no block\n")
        with pytest.raises(ValueError, match="has no block"):
            fill(page, {"table": ""})

    @pytest.mark.parametrize("page", ["README.md", "app/README.md"])
    def test_the_pages_have_a_block(self, page, results, tmp_path):
        """The pages of the documentation can be filled."""
        copy = tmp_path / "page.md"
        copy.write_text((ROOT / page).read_text())
        fill(copy, {"chart": "![chart](chart.svg)\n", "table": table(results)})


def test_the_register_has_every_kind_of_paper(tmp_path):
    """Each vehicle has the papers of a car of the demo, and a plate of its own."""
    cars = demo_register(clock.today(UTC))
    for path, of_cars in zip(write_files(tmp_path, 2 * CASES), cars, strict=True):
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 2 * len(of_cars)
        assert len({row["registration"] for row in rows}) == 2 * len(
            {row["registration"] for row in of_cars}
        )
        assert rows[0].keys() == of_cars[0].keys()


class TestAnswers:
    def test_the_same_answer_passes(self):
        """Ids, times and sentences may differ; members and values may not."""
        ours = answer(404, code="vehicle_not_found", request_id="1", detail="A.", error="B.")
        theirs = answer(404, code="vehicle_not_found", **FREE_MEMBERS)
        assert differences(ours, theirs) == []

    @each_row(
        ("theirs", "difference"),
        [
            (answer(500), "status 500, not 200"),
            (answer(a=1), "/ has a, not a, b"),
            (answer(a=1, b=[{"c": True}, 4], d=0), "/ has a, b, d, not a, b"),
            (answer(a=2, b=[{"c": True}, 4]), "/a is 2, not 1"),
            (answer(a=1, b=[{"c": 1}, 4]), "/b/0/c is 1, not True"),
            (answer(a=1, b=[{"c": True}]), "/b is [{'c': True}], not [{'c': True}, 4]"),
            (answer(a=None, b=[{"c": True}, 4]), "/a is None, not 1"),
        ],
    )
    def test_less_or_other_work_is_found(self, theirs, difference):
        """A missing member, another value or type, and another status are named."""
        assert differences(answer(a=1, b=[{"c": True}, 4]), theirs) == [difference]

    def test_each_limit_header_is_needed(self):
        """Who does not count requests does less."""
        missing = differences(answer(a=1), answer(headers=LIMIT_HEADERS[:1], a=1))
        assert missing == [f"no header {name}" for name in LIMIT_HEADERS[1:]]


class Handler(BaseHTTPRequestHandler):
    """Answers paths with 200, but /wrong with 404, and closes the connection after /close."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"{}" * 50_000
        self.send_response(404 if self.path == "/wrong" else 200)
        self.send_header("Content-Length", str(len(body)))
        if self.path == "/close":
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """Return the address of a small server."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        listening.daemon_threads = True
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"127.0.0.1:{listening.server_port}"
        listening.shutdown()
        thread.join()


class TestSteadyClient:
    @pytest.mark.parametrize("path", ["/kept", "/close"])
    def test_it_keeps_its_rate(self, server, path):
        """It sends no more than the rate allows, and measures every request."""
        asked = []

        def is_over():
            asked.append(1)
            return len(asked) > 60

        times = ask_steadily(server, "key", [path], 200, is_over)
        assert len(times) == 60
        assert times == sorted(times)
        assert 0 < percentile_ms(times, 0.5) <= percentile_ms(times, 0.99) == times[-1] * 1000

    def test_a_failed_request_ends_it(self, server):
        """Measuring failures is useless."""
        with pytest.raises(RuntimeError, match="404"):
            ask_steadily(server, "key", ["/kept", "/wrong"], 1_000, lambda: False)


def test_without_wrk_it_says_what_to_install(tmp_path):
    """The command ends at once with the name of the Debian package."""
    ended = subprocess.run(
        [sys.executable, "-m", "tests.bench.peers"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert "apt-get install wrk" in ended.stderr
