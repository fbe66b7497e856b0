"""Whoever forges a trail that fits itself is found with a digest that left the host (D116, D168).

Or by what only this program would do, or the operator's page lists it among what cannot be found.
Root has this program, and lets it compute all digests again.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from app.audit.prune import AMOUNT, prune
from tests.rows import each_row
from tests.unit.tampered_trail import KEEP, Kind, Root, built, named, rows

PAGE = Path(__file__).parents[2] / "deploy" / "docs" / "audit.md"
FORGED = b'{"time":"2026-11-08T12:30:00.000000Z","operation":"insurance"}\n'
Do = Callable[[Root], object]


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    with built(tmp_path_factory.mktemp("forgery")) as original:
        yield original


def both(first: Do, second: Do) -> Do:
    def do(root: Root) -> None:
        first(root)
        second(root)

    return do


# A chain whose digests fit, which this program would not write


def member(number: int, **members: Any) -> Do:
    return lambda root: root.member(number, **members)


def cut(length: int) -> Do:
    return lambda root: root.cut(length)


def line_removed(root: Root) -> None:
    root.path(5).unlink()
    root.rebuild(lambda x: [*x[:4], *x[5:]])


def old_number(root: Root) -> None:
    root.add("00000005-20261106T13.ndjson", FORGED)
    root.sealed("00000005-20261106T13", index=root.seals()[4].index)


def no_number(root: Root) -> None:
    root.add("extra.ndjson", FORGED)
    root.sealed("extra")


def one_more(root: Root) -> None:
    pruned = root.names[:3] + root.names[4:5]
    root.member(11, segments=pruned)
    root.path(5).unlink()


REBUILT = [
    Kind("a count", member(5, records=3), "count 5", "has 4 records"),
    Kind("a size", member(5, bytes=606), "count 5", "607 bytes"),
    Kind("the digest of a segment", member(5, sha256="0" * 64), "changed 5"),
    Kind("the digest of the index", member(5, index="0" * 64), "index index:00000005"),
    Kind("a name", member(5, segment="00000005-20261106T13"), "renamed 5"),
    Kind("a segment and its line", line_removed, "removed 5", "removed before being sealed"),
    Kind(
        "no first lines",
        lambda r: r.rebuild(lambda x: x[3:]),
        "removed 1, pruned_early chain:8",
        "segments 00000001 to 00000003",
    ),
    Kind("no end from before a prune", cut(8), "removed 1, removed 2, removed 3"),
    Kind(
        "no line of a prune",
        lambda r: r.rebuild(lambda x: [*x[:10], *x[11:]]),
        "removed 1, removed 2, removed 3",
    ),
    Kind("a segment of a prune less", lambda r: r.member(11, segments=r.names[:2]), "removed 3"),
    Kind("a segment of a prune more", one_more, "pruned_early chain:11", "is younger"),
    Kind(
        "a line again",
        lambda r: r.rebuild(lambda x: [*x, x[4]]),
        "chain_broken chain:15",
        "its number was sealed before",
    ),
    Kind(
        "two lines exchanged",
        lambda r: r.rebuild(lambda x: [*x[:4], x[5], x[4], *x[6:]]),
        "removed 5, chain_broken chain:6",
    ),
    Kind("an old number with its file", old_number, "chain_broken chain:15"),
    Kind("a file without a number", no_number, "chain_broken chain:15"),
    Kind("a number passed over", lambda r: r.sealed(r.names[14]), "removed 14, added 14"),
    Kind(
        "other content of what is sealed next",
        lambda r: r.sealed(r.names[13], sha256="0" * 64),
        "changed 14",
    ),
    Kind(
        "a prune again",
        lambda r: r.rebuild(lambda x: [*x, x[10]]),
        "pruned_early chain:15",
        "names 00000001-20261102T06, which was not there",
    ),
]


# Prunes


def recorded(
    *numbers: int, before: float | str = -65, time: float | str = 0, keep: str = KEEP
) -> Do:
    """Remove segments as if a command had, after a record of it. Times are hours from now."""

    def do(root: Root) -> None:
        root.recorded(*numbers, before=root.at(before), time=root.at(time), keep=keep)

    return do


def pruned(*numbers: int, **members: Any) -> Do:
    return lambda root: root.pruned(*numbers, **members)


def noted(operation: str = "prune", **told: Any) -> Do:
    """Append a record as if a command had."""
    return lambda root: root.record(operation, **({"before": root.old, "keep": KEEP} | told))


def clock_ahead(root: Root) -> None:
    """Prune with the clock ahead, where clock.json was forged, too, and go on for an hour."""
    root.clock.pass_hours(19_200)
    before = root.at(-100)
    prune(root.directory, KEEP, before=before, accepted=[AMOUNT])
    root.clock.pass_hours(1)
    root.original.append(root.directory, 17)
    root.seal()
    root.clock.pass_hours(-19_201)


P15, P18 = "pruned_early chain:15", "pruned_early chain:18"
MISSING = "which was not there"
NO_RECORD = "has no record of who ran it"
PRUNES = [
    Kind("before 9999", recorded(5, before="9999"), P18, "but 2d must be kept"),
    Kind("before a time to come", recorded(5, before=9000), P18, "but 2d must be kept"),
    Kind("dated ahead", recorded(5, before=9000, time=9999), P18, "was dated ahead"),
    Kind("all of it with the clock ahead", clock_ahead, P18, "was dated ahead"),
    Kind("what is younger than it says", recorded(5, before=-140), P18, "is younger"),
    Kind("earlier than the age", recorded(5, before=-40), P18, "but 2d must be kept"),
    Kind("earlier than its record says", recorded(5, before=-65, keep="24m"), P18, "24m must"),
    Kind("a record with no age", recorded(5, before=-40, keep="0d"), P18, "2d must be kept"),
    Kind("earlier, without a record", lambda r: r.pruned(5, before=r.young), P15, "2d must"),
    Kind("no record", pruned(5), P15, NO_RECORD),
    Kind("a record that is not sealed", both(noted(is_sealed=False), pruned(5)), P15, NO_RECORD),
    Kind("a record after it", both(pruned(5), noted()), P15, NO_RECORD),
    Kind(
        "the record of another run",
        both(noted(before="2026-11-05"), pruned(5)),
        P18,
        NO_RECORD,
    ),
    Kind(
        "the record of an earlier run",
        lambda r: r.pruned(5, before=r.before_of(11)),
        P15,
        "is younger",
    ),
    Kind("a segment that never was", pruned(named="00000077-20261106T12"), P15, MISSING),
    Kind("a segment that is gone", lambda r: r.pruned(named=r.names[0]), P15, MISSING),
    Kind("a segment that is not sealed", pruned(15), P15, MISSING),
    Kind("a name that is a path", pruned(named="../../verifyd"), P15, MISSING),
    Kind("nothing", pruned(), P15, NO_RECORD),
    Kind("a day that is none", recorded(5, time="2026-02-31T00"), P18, "no valid time"),
    Kind("an empty time", recorded(5, time=""), P18, "no valid time"),
    Kind("a time that is none", recorded(5, time="yesterday"), P18, "dated ahead"),
    Kind("before nothing", recorded(5, before=""), P18, "is younger"),
    Kind(
        "a segment that it leaves",
        both(noted(), lambda r: r.pruned(named=r.names[4])),
        "restored 5",
    ),
    Kind(
        "a segment that it does not name",
        both(recorded(5), lambda r: r.path(6).unlink()),
        "removed 6",
    ),
    Kind(
        "accepted in advance",
        both(noted("acknowledge", fault="chain:18"), pruned(5)),
        P18,
        NO_RECORD,
    ),
    Kind("another one accepted", both(pruned(5), noted("acknowledge", fault="chain:11")), P15),
    Kind(
        "a change accepted",
        both(
            lambda r: r.rewrite(5, lambda d: d.replace(b"05P1", b"05P9")),
            lambda r: r.record("acknowledge", fault=r.names[4]),
        ),
        "changed 5",
    ),
]


@rows(REBUILT)
def test_a_chain_that_this_program_would_not_write(original, tmp_path, kind):
    """All digests fit, but numbers, counts and names do not."""
    root = Root.of(original, tmp_path, kind)
    kind.do(root)
    faults = root.verify_at_night().faults
    assert named(faults) == kind.faults
    assert kind.words in faults[0].sentence


@rows(PRUNES)
def test_prunes(original, tmp_path, kind):
    """A run is judged by its age, its record, its time and what was there (D164)."""
    root = Root.of(original, tmp_path, kind)
    kind.do(root)
    faults = root.verify_kept().faults
    assert named(faults) == kind.faults
    assert kind.words in faults[0].sentence
    assert root.verify_at_night().faults == faults


# A trail that fits itself, but not what was kept of it


def resealed(do: Do) -> Do:
    return both(do, Root.reseal)


def replaced(number: int, old: bytes, new: bytes) -> Do:
    def do(root: Root) -> None:
        assert old in root.path(number).read_bytes()
        root.rewrite(number, lambda was: was.replace(old, new))

    return resealed(do)


def records(number: int, change: Callable[[list[bytes]], list[bytes]]) -> Do:
    return resealed(lambda root: root.records(number, change))


def older(root: Root) -> None:
    root.replace_by(root.original.older)


def went_on(root: Root) -> None:
    older(root)
    for number in range(3):
        root.original.append(root.directory, number)
        root.seal()


def regenerated(root: Root) -> None:
    owner = root.owner.read_bytes()
    root.replace_by(root.original.other)
    root.owner.write_bytes(owner)


def renamed_trail(root: Root) -> None:
    trail = root.kept[0].split()[1].encode()
    root.owner.write_bytes(root.owner.read_bytes().replace(trail, b"0" * 32))


def renumbered(root: Root) -> None:
    """Remove a segment, and close the gap."""
    root.path(5).unlink()
    names = dict(zip(root.names[5:], root.names[4:], strict=False))
    names = {old: f"{new[:8]}{old[8:]}" for old, new in names.items()}
    for old, new in names.items():
        (root.directory / f"{old}.ndjson").rename(root.directory / f"{new}.ndjson")

    def renamed(line):
        name = getattr(line, "segment", "")
        return msgspec.structs.replace(line, segment=names[name]) if name in names else line

    root.rebuild(lambda lines: [renamed(x) for x in [*lines[:4], *lines[5:]]])
    root.reseal()


def pruned_more(root: Root) -> None:
    """Let the honest run have removed one segment more."""
    before = "2026-11-02T11:00:00.000000Z"
    was = root.before_of(11).encode()
    root.rewrite(10, lambda data: data.replace(was, before.encode()))
    root.path(4).unlink()
    root.reseal()
    root.member(11, before=before, segments=root.names[:4])


def emptied(root: Root) -> None:
    for path in [*root.directory.glob("*.ndjson"), *root.index.iterdir()]:
        path.unlink()


def entry_less(root: Root) -> None:
    root.rewrite(13, lambda data: data.replace(b"13P1", b"13P9"))
    index = root.told(root.names[12])["index"]
    root.rewrite(13, lambda data: data.replace(b"13P9", b"13P1"))
    root.member(14, index=index)
    root.index_of(13).unlink()


SHORT = "has only"
AT_8, AT_11, AT_14 = (f"digest chain:{length}" for length in (8, 11, 14))
KEPT = [
    Kind("another plate", replaced(5, b"05P1", b"05P9"), AT_8, "3 of 3 kept digests do not fit"),
    Kind("another answer", replaced(5, b'"insured":true', b'"insured":false'), AT_8),
    Kind("other times", replaced(5, b"2026-11-06T", b"2026-11-05T"), AT_8),
    Kind("another account", replaced(13, b'"acme"', b'"evil"'), AT_14, "1 of 3"),
    Kind("a record less", records(5, lambda x: x[1:]), AT_8),
    Kind("a record more", records(5, lambda x: [*x, FORGED]), AT_8),
    Kind("records in another order", records(5, lambda x: [x[1], x[0], *x[2:]]), AT_8),
    Kind("an empty segment", resealed(lambda r: r.rewrite(5, lambda _: b"")), AT_8),
    Kind("a segment less, and others renumbered", renumbered, AT_8),
    Kind("no newest segment", cut(13), AT_14, SHORT),
    Kind("no segment since a prune", cut(11), AT_14, SHORT),
    Kind("no segment at all", emptied, AT_8, "has only 0"),
    Kind("an older backup", older, AT_14, SHORT),
    Kind("an older backup that went on", went_on, AT_14, "has another one there"),
    Kind("another trail of the same name", regenerated, AT_8, "has another one there"),
    Kind(
        "another trail",
        lambda r: r.replace_by(r.original.other),
        "digest chain",
        "no digest of this trail",
    ),
    Kind("another name, and no end", both(cut(12), renamed_trail), AT_14, SHORT),
    Kind("no owner, and no end", both(cut(12), lambda r: r.owner.unlink()), AT_14, SHORT),
    Kind("who ran a prune", replaced(10, b'"ann"', b'"bob"'), AT_11, "2 of 3"),
    Kind("what a prune kept", replaced(10, b'"2d"', b'"1d"'), AT_11),
    Kind("what a prune removed", pruned_more, AT_11),
    Kind("an acknowledgement less", records(9, lambda x: x[1:]), AT_11),
    Kind("who acknowledged", replaced(9, b'"ann"', b'"bob"'), AT_11),
    Kind("a search less", records(13, lambda x: [y for y in x if b"search" not in y]), AT_14),
    Kind("the time of a seal", member(14, time="2026-11-06T22:30:00.000000Z"), AT_14),
    Kind("a seal of 1970", member(14, time="1970-01-01T00:00:00.000000Z"), AT_14),
    Kind("a seal dated ahead", member(14, time="2036-01-01T00:00:00.000000Z"), AT_14),
    Kind("a seal that searches pass over", member(14, first="1970", last="1970"), AT_14),
    Kind("a seal of an index that lacks an entry", entry_less, AT_14),
]


@rows(KEPT)
def test_what_was_kept_elsewhere(original, tmp_path, kind):
    """Nothing on the host tells, but each digest that left it proves all until then."""
    root = Root.of(original, tmp_path, kind)
    kind.do(root)
    assert root.verify_at_night().faults == []
    faults = root.verify_kept().faults
    assert named(faults) == kind.faults
    assert kind.words in faults[0].sentence


# What cannot be found


def since(do: Do) -> Do:
    """Seal what is not sealed, and change it before its digest leaves."""
    return both(lambda root: root.seal(), do)


def open_records(change: Callable[[list[bytes]], list[bytes]]) -> Do:
    return lambda root: root.records(15, change)


def other_sent(root: Root) -> None:
    root.replace_by(root.original.other)
    root.kept.append(root.original.other_line)


def unsent(root: Root) -> None:
    """Keep the last digest from leaving, as a forged digests.json does."""
    root.kept.pop()
    root.cut(12)


def false_index(root: Root) -> None:
    """Seal a segment with the index of another content."""
    data = root.path(14).read_bytes()
    root.rewrite(14, lambda was: was.replace(b"14P1", b"14P9"))
    root.seal()
    root.rewrite(14, lambda _: data)
    root.member(15, sha256=root.told(root.names[13])["sha256"])


LATER = "What was sealed later, or is not sealed yet."
REMOVED = "What later runs of prune removed."
TRUE = "That what was recorded is true and complete."
WHICH = "Which trail this host has."
UNDETECTABLE = {
    LATER: [
        Kind("a record less", open_records(lambda x: x[1:]), ""),
        Kind("another plate", open_records(lambda x: [x[0].replace(b"P0", b"P9"), *x[1:]]), ""),
        Kind("a record more", open_records(lambda x: [*x, FORGED]), ""),
        Kind("half a record", lambda r: r.rewrite(15, lambda data: data[:-20]), ""),
        Kind("a record dated ahead", open_records(lambda x: [x[0].replace(b"2026", b"2036")]), ""),
        Kind("the newest segment less", lambda r: r.path(15).unlink(), ""),
        Kind("a segment more", lambda r: r.add("00000016-20261108T00.ndjson", FORGED), ""),
        Kind("a seal less", since(cut(15)), ""),
        Kind("sealed, changed, and sealed again", since(replaced(15, b"P1", b"P9")), ""),
        Kind("a digest that never left", unsent, ""),
    ],
    REMOVED: [
        Kind("with a record", recorded(5), ""),
        Kind("of a shorter age", recorded(5, before=-40, keep="1d"), "age 16", "1d are kept"),
        Kind(
            "accepted by root",
            both(pruned(5), noted("acknowledge", fault="chain:15")),
            P15,
            "(bob)",
        ),
    ],
    TRUE: [
        Kind("what never was", lambda r: r.original.append(r.directory, 99), ""),
        Kind("a seal with wrong times", lambda r: r.sealed(r.names[13], first="", last=""), ""),
        Kind("a seal with a wrong index", false_index, ""),
        Kind(
            "a second acknowledgement",
            lambda r: r.record("acknowledge", fault=r.names[6]),
            "",
        ),
    ],
    WHICH: [Kind("another one, which sends digests", other_sent, "digest trails", "used: 3 of")],
}


@each_row(
    "kind",
    [kind for kinds in UNDETECTABLE.values() for kind in kinds],
    [f"{title} {kind.name}" for title, kinds in UNDETECTABLE.items() for kind in kinds],
)
def test_what_no_digest_proves(original, tmp_path, kind):
    """A note tells of it, or nothing does."""
    root = Root.of(original, tmp_path, kind)
    kind.do(root)
    found = root.verify_kept()
    assert found.faults == []
    ahead = [each for each in found.notes if each.kind == "ahead"]
    assert all(each.sentence.endswith("(ann): the battery was empty") for each in ahead)
    notes = [each for each in found.notes if each not in ahead]
    assert named(notes) == kind.faults
    assert not notes or kind.words in notes[0].sentence


def test_the_page_lists_what_no_digest_proves():
    """Each is said, and nothing that is said can be found."""
    listed = PAGE.read_text().partition("What a kept digest does not prove:")[2]
    listed = listed.partition("\n\n- ")[2].partition("\n\n")[0]
    assert re.findall(r"^(?:- )?\*\*(.+)\*\*", listed, re.MULTILINE) == [*UNDETECTABLE]
