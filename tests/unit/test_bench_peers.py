"""The benchmark beside other stacks finds who does less or other work."""

import json
from email.message import Message

from tests.bench.peers.answers import LIMIT_HEADERS, differences
from tests.rows import each_row
from tests.system.processes import Answer

FREE_MEMBERS = {"request_id": "2", "detail": "Another sentence.", "error": "Yet another."}


def answer(status=200, headers=LIMIT_HEADERS, **members):
    """Return an answer of a contestant."""
    message = Message()
    for name in headers:
        message[name.lower()] = "1"
    return Answer(status, message, json.dumps(members).encode())


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
