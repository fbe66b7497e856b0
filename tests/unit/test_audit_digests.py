"""Digests that left the host: what any text says of a trail, and what the chain says (D168)."""

import base64
import quopri
from email.message import EmailMessage
from typing import Any

import pytest

from app.alerts.message import DIGEST, Message
from app.alerts.sending import _mail
from app.audit import digests
from app.audit.digests import DigestLine, find_digests, latest
from app.audit.record import AuditError
from app.audit.seal import seal
from app.audit.verify import Verdict, verify
from tests.unit.audit_trails import HOUR_NS, Clock
from tests.unit.test_audit_chain import Sealed


class Kepted(Sealed):
    """A trail, and what was kept of it."""

    def __init__(self, directory, hours):
        super().__init__(directory, hours)
        self.kept = latest(directory)


OTHER = DigestLine("f" * 32, "00000001-20260101T00", 1, "e" * 64)


@pytest.fixture
def hours(monkeypatch):
    return Clock(monkeypatch)


@pytest.fixture
def trail(tmp_path, hours):
    return Kepted(tmp_path / "audit", hours)


def compared(trail: Any, *texts: object) -> Verdict:
    """Verify a trail with a text, which is read in pieces."""
    text = "\n".join(map(str, texts)).encode()
    return verify(trail.directory, kept=find_digests([text[:100], text[100:]]))


def kinds(verdict: Verdict) -> list[str]:
    return [fault.kind for fault in verdict.faults]


def test_a_line_says_which_segment_was_sealed_and_how_long_the_chain_is(trail, hours):
    """A line of the chain that removed segments counts, but names no segment."""
    name, *rest = str(trail.kept).split()
    assert name == "verifyd-audit"
    assert rest[1:] == [trail.names[4], "5", trail.digest]
    hours.pass_hours(100)
    trail.prune(hours.now_ns - 103.5 * HOUR_NS)
    pruned = latest(trail.directory)
    assert pruned is not None
    # The record of the run was sealed, and then its line was added.
    assert pruned.length > int(pruned.segment.partition("-")[0])


FORMS = {
    "as it is": lambda line: line.encode(),
    "in upper case": lambda line: line.upper().encode(),
    "in UTF-16": lambda line: line.encode("utf-16"),
    "quoted-printable": lambda line: quopri.encodestring(line.encode()),
    "quoted-printable of Windows": lambda line: quopri.encodestring(line.encode()).replace(
        b"\n", b"\r\n"
    ),
    "broken between words": lambda line: line.replace(" ", "\r\n ").encode(),
    "quoted, and wrapped in quoted-printable": lambda line: (
        "\r\n>> " + "=20\r\n>> ".join(line.split()) + "=20\r\n"
    ).encode(),
    "in JSON": lambda line: f'{{"text":"{line}\\n"}}'.encode(),
    "in Latin-1": lambda line: f"déjà {line}\n".encode("latin-1"),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_line_is_found_in_any_text(name, size):
    """However the text is cut into pieces, and among other texts of 64 digits."""
    line, later = OTHER, OTHER._replace(length=2)
    noise = f"\nlatest digest {'a' * 64}\n{'b' * 500}\nverifyd-audit-seal.service: done\n".encode()
    text = noise.join([b"", *(FORMS[name](str(each)) for each in (line, later)), b""])
    found = find_digests(text[at : at + size] for at in range(0, len(text), size))
    assert found == ({line, later}, 0)


@pytest.mark.parametrize(
    "text",
    [str(OTHER)[:-1], f"{OTHER}0", str(OTHER).replace("T00", ""), "verifyd-audit \n", f"x{OTHER}"],
)
def test_what_is_cut_or_changed_is_not_used(text):
    """It is counted, if it begins like a digest."""
    found = find_digests([b"1\n", text.encode(), b"\n2"])
    assert found == (set(), 0 if text.startswith("x") else 1)


def test_an_empty_text_has_no_digest():
    """Nor has one of other things."""
    assert find_digests([]) == find_digests([b"a" * 2**20] * 3) == (set(), 0)


def test_more_lines_than_a_machine_can_hold_are_refused(monkeypatch):
    """The text can be hostile."""
    monkeypatch.setattr(digests, "LINES_MAX", 10)
    text = "\n".join(str(OTHER._replace(length=number)) for number in range(11))
    with pytest.raises(AuditError, match="more than 10 digests"):
        find_digests([text.encode()])


def test_a_mail_has_the_line_whole():
    """Otherwise nobody finds it in a mailbox."""
    message = Message("msg_1", DIGEST, 1, "host", "digest", f"{OTHER}\n")
    mail = _mail("ops@example.com", message)
    assert str(OTHER).encode() in mail.splitlines()
    usual = EmailMessage()
    usual.set_content(message.text)
    assert find_digests([usual.as_bytes()]).lines == {OTHER}


def test_every_line_of_a_trail_is_compared(trail, hours):
    """The same line counts once, and those of former digests are right as well."""
    hours.pass_hours(2)
    seal(trail.directory, current=True)
    verdict = compared(trail, trail.kept, "?", latest(trail.directory), trail.kept)
    assert (verdict.kept, verdict.faults, verdict.notes) == (2, [], [])


WRONG = {
    "of the future": lambda kept: kept._replace(length=99),
    "of another line": lambda kept: kept._replace(length=4),
    "of no line": lambda kept: kept._replace(length=0),
    "with another segment": lambda kept: kept._replace(segment="00000004-20260101T00"),
    "with another digest": lambda kept: kept._replace(digest="e" * 64),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_line_that_does_not_fit_is_a_fault(trail, name):
    """Also beside one that fits."""
    wrong = WRONG[name](trail.kept)
    assert kinds(compared(trail, wrong, trail.kept)) == ["digest"]


def test_a_trail_with_another_name_must_still_fit_what_was_kept(trail):
    """A trail that moved to another host got one. Root cannot hide a change behind one."""
    owner = trail.directory / "owner.json"
    owner.write_bytes(owner.read_bytes().replace(trail.kept.trail.encode(), b"0" * 32))
    assert compared(trail, trail.kept).kept == 1
    assert kinds(compared(trail, trail.kept, trail.kept._replace(length=9))) == ["digest"]


def test_digests_of_other_trails_are_noted(trail):
    """A mailbox can have those of all hosts. A trail that is verified as well is not noted."""
    others = [OTHER._replace(trail=f"{number:032x}") for number in range(9)]
    (note,) = compared(trail, trail.kept, *others).notes
    assert ": 9 of 0000" in note.sentence
    assert note.sentence.endswith("4, more")
    kept = find_digests([f"{trail.kept} {OTHER}".encode()])
    assert verify(trail.directory, kept=kept, known=[OTHER.trail]).notes == []


@pytest.mark.parametrize("text", ["", "a" * 64, str(OTHER), "verifyd-audit cut"])
def test_a_text_without_a_digest_of_the_trail_is_a_fault(trail, text):
    """Whoever gives the wrong file must not believe that anything was proven."""
    assert kinds(compared(trail, text)) == ["digest"]


def test_base64_is_not_read(trail):
    """The page says so."""
    text = base64.b64encode(str(trail.kept).encode()).decode()
    assert compared(trail, text).kept == 0
