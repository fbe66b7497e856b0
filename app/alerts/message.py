"""A message to the operator: what is wrong, since when, what to do, and what is over (D77).

SEC: it consists of conditions, which hold no registration, key or record.
"""

import secrets
import socket
from collections.abc import Sequence

import msgspec

from app import clock


class Condition(msgspec.Struct, frozen=True):
    """One thing that an operator must correct. Most of them do not affect look-ups.

    SEC: alerts send all members. None holds a registration, a key or a record. The reason of a
    failed load can quote a record, except if it failed before a file was opened.
    """

    key: str
    """What it is about, such as `load:rdw`. The part before the colon is its kind."""
    title: str
    """A clause for the subject of a message, such as `a load of the register rdw failed`."""
    warning: str
    """A sentence for `verifyd check` and `/readyz`. It names no register files."""
    since: int
    """When it began, in Unix seconds."""
    remedy: str
    """What to do now: a command."""
    occurrence: str = ""
    """A value that changes when it happens again, such as the number of the failed load."""
    details: tuple[str, ...] = ()
    """More lines for an alert."""
    load: int | None = None
    """The number of the load that it is about, whose page in the console has the next step."""

    @property
    def kind(self) -> str:
        """Return its kind: `load`, `stale`, `job`, `missed`, ..."""
        return self.key.partition(":")[0]


ALERT, SOLVED, TEST = "verifyd.alert", "verifyd.solved", "verifyd.test"
REPORT, DIGEST = "verifyd.report", "verifyd.digest"
"""The types of messages."""
SHOWN_MAX = 20
_LINE_CHARACTERS_MAX = 1_000
_TEXT_CHARACTERS_MAX = 30_000
"""Commands get the text in their environment, where Linux allows 128 KiB per variable."""


class Alerted(msgspec.Struct, frozen=True):
    """A condition that was reported to the operator, and is not known to be over."""

    occurrence: str
    title: str
    since: int
    told_at: int


class Message(msgspec.Struct, frozen=True):
    """One message, the same for all destinations."""

    id: str
    type: str
    created_at: int
    host: str
    subject: str
    text: str
    problems: list[Condition] = []
    solved: list[Alerted] = []

    def document(self) -> dict[str, object]:
        """Return the JSON document for programs: the members of Standard Webhooks, and data."""
        return {
            "type": self.type,
            "timestamp": clock.iso_utc(self.created_at),
            "data": {
                "id": self.id,
                "host": self.host,
                "subject": self.subject,
                "text": self.text,
                "problems": [
                    {
                        "key": each.key,
                        "title": each.title,
                        "detail": each.warning,
                        "since": clock.iso_utc(each.since),
                        "remedy": each.remedy,
                        "lines": list(each.details),
                    }
                    for each in self.problems
                ],
                "solved": [
                    {"title": each.title, "since": clock.iso_utc(each.since)}
                    for each in self.solved
                ],
            },
        }


def new_message(
    type_: str,
    title: str,
    text: str,
    problems: Sequence[Condition] = (),
    solved: Sequence[Alerted] = (),
) -> Message:
    """Return a message of this host, with an identifier that no other message has.

    Args:
        title: what follows the name of the host in the subject.
        problems, solved: programs get at most the first SHOWN_MAX.
    """
    host = socket.gethostname()
    return Message(
        id=f"msg_{secrets.token_hex(12)}",
        type=type_,
        created_at=clock.now(),
        host=host,
        subject=f"verifyd on {host}: {title}",
        text=text,
        problems=list(problems[:SHOWN_MAX]),
        solved=list(solved[:SHOWN_MAX]),
    )


def composed(problems: Sequence[Condition], solved: Sequence[Alerted]) -> Message:
    """Return the message about new problems and those that are over; at least one is given."""
    titles = [each.title for each in problems] or [each.title for each in solved]
    more = f", and {len(titles) - 1} more" if len(titles) > 1 else ""
    title = f"{'' if problems else 'solved: '}{titles[0]}{more}"
    paragraphs = [_paragraph(each) for each in problems[:SHOWN_MAX]]
    if len(problems) > SHOWN_MAX:
        paragraphs.append(f"And {len(problems) - SHOWN_MAX} more.")
    if solved:
        lines = [
            f"- {each.title} (since {clock.iso_utc(each.since)})" for each in solved[:SHOWN_MAX]
        ]
        paragraphs.append("\n".join(["Solved, nothing to do:", *lines]))
    paragraphs.append("Everything that is wrong now: sudo verifyd check")
    text = "\n\n".join(paragraphs)[:_TEXT_CHARACTERS_MAX] + "\n"
    return new_message(ALERT if problems else SOLVED, title, text, problems, solved)


def test_message() -> Message:
    """Return the message of `verifyd notify --test`."""
    text = "This is a test. Nothing is wrong, and there is nothing to do.\n"
    return new_message(TEST, "test", text)


def _paragraph(condition: Condition) -> str:
    lines = [
        condition.warning,
        f"Since: {clock.iso_utc(condition.since)}",
        *(line[:_LINE_CHARACTERS_MAX] for line in condition.details),
        f"What to do: {condition.remedy}",
    ]
    return "\n".join(lines)
