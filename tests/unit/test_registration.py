"""The canonical form of a registration number (D19)."""

import sys
import unicodedata
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.vehicles.registration import REGISTRATION_CHARACTERS_MAX, canonical_registration
from tests.rows import each_row

ANY_TEXT = st.text(st.characters(), max_size=20)
# Letters that expand or compose, and separators between them.
HARD_TEXT = st.text(
    "aZ09\u0131İßŉǰΐﬃᾳÅ㎏Ⅷ½\u1100\u1161\u11a8\u0301\u0345 -\u00a0\u2011", max_size=14
)
# Texts of the greatest length that is processed: expanding, composing, separating, reordering.
LONG_TEXT = st.text(
    "aZ09Äéßŉΐᾂẞ\ufdfa\ufdfb\u3316㎏\U0001d160\u0301\u0323\u0345\u0f71\u1100\u1161\u11a8가"
    " -\u00a0\u1680\u3000\u2011\u207b\ufe31\uff0d",
    max_size=101,
)
PLATES = st.text("ABCXYZ0189ÄÖÜÅÆÇÉÑØŁŠŽΩБЯ", min_size=1, max_size=12)


class TestAccepted:
    @each_row(
        ("sent", "canonical"),
        [
            ("AB12CDE", "AB12CDE"),
            ("ab12cde", "AB12CDE"),
            (" ab12 cde ", "AB12CDE"),
            ("11-zkz-3", "11ZKZ3"),
            ("MÜ AB 123", "MÜAB123"),
            ("mu\u0308-ab 123", "MÜAB123"),
            ("\uff21\uff22\uff11\uff12", "AB12"),
            ("AB\u00a012\u3000CD", "AB12CD"),
            ("AB\u201012\u2011CD\u2013E\u2212F\uff0dG", "AB12CDEFG"),
            ("ZH\u00b7123 456", "ZH123456"),
            ("ZH\u0387123456", "ZH123456"),
            ("京A12345", "京A12345"),
            ("א٣", "א٣"),
            ("weiß1", "WEISS1"),
        ],
    )
    def test_it_is_folded(self, sent, canonical):
        """The form is NFKC, in upper case, without spaces and hyphens of any kind."""
        assert canonical_registration(sent) == canonical

    @each_row("plate", ["0001TJ", "0042", "12E345", "FALSE", "NULL", "NAN", "0"])
    def test_a_registration_is_never_read_as_another_value(self, plate):
        """A registration is a text, and never read as a number or a null."""
        assert canonical_registration(plate) == plate

    @given(PLATES)
    def test_capital_letters_and_digits_stay_as_they_are(self, plate):
        """A canonical registration is returned unchanged."""
        assert canonical_registration(plate) == plate


class TestLookAlikes:
    @each_row(
        ("one", "other"),
        [
            ("O1", "01"),
            ("I1", "11"),
            ("S5", "55"),
            ("B8", "88"),
            ("Z2", "22"),
            ("A1", "\u0391" + "1"),
            ("A1", "\u0410" + "1"),
            ("MU1", "MÜ1"),
        ],
    )
    def test_letters_are_never_swapped_for_look_alikes(self, one, other):
        """Two plates that look alike are two plates."""
        assert canonical_registration(one) != canonical_registration(other)

    @given(st.text("O0I1S5B8Z2G6", min_size=1, max_size=12))
    def test_no_look_alike_is_ever_exchanged(self, plate):
        """A plate of look-alikes keeps every character."""
        assert canonical_registration(plate) == plate


class TestRefused:
    @each_row(
        "text",
        [
            "",
            " ",
            "-",
            " - \u00a0",
            "?",
            "AB/12",
            "AB.12",
            "AB_12",
            "AB,12",
            "AB'12",
            "AB%2012",
            "\x00",
            "AB\x0012",
            "AB\x1f12",
            "AB\x7f12",
            "AB\t12",
            "AB12\n",
            "AB12\r\n",
            "AB\x8512",
            "AB\u200b12",
            "AB\u200d12",
            "AB\u202e12",
            "AB\ufeff12",
            "AB\u2028" + "12",
            "\ud800",
            "AB\udc8012",
            "\ufffd12",
            "\U0001f697",
            "AB12\u20e3",
            "A\u0301\u0301",
            "½1",
            "A\u1369",
            "A\u09f4",
        ],
        ids=ascii,
    )
    def test_other_characters_are_refused(self, text):
        """Controls, NUL, surrogates, emoji, invisible and punctuation characters are refused."""
        assert canonical_registration(text) is None

    @each_row("plate", ["A" * 13, "1" * 13, "Ü" * 13, "ﬃ" * 5, "ß" * 7])
    def test_a_canonical_form_has_at_most_twelve_characters(self, plate):
        """The limit applies to the canonical form, so a ligature counts as several letters."""
        assert canonical_registration(plate) is None

    @each_row("plate", ["A" * 12, "Ü" * 12, "ﬃ" * 4, "ß" * 6, "u\u0308" * 12])
    def test_twelve_characters_are_accepted(self, plate):
        """Twelve canonical characters are accepted, however many characters were sent."""
        assert len(canonical_registration(plate) or "") == REGISTRATION_CHARACTERS_MAX

    @pytest.mark.parametrize("letter", ["A", "Ü"])
    def test_a_long_text_is_refused_before_it_is_normalised(self, letter):
        """At most a hundred characters, spaces included, are normalised; more are refused."""
        assert canonical_registration(letter + " " * 99) == letter
        assert canonical_registration(letter + " " * 100) is None


class TestAnyText:
    @given(ANY_TEXT | HARD_TEXT)
    @example("\u1100 \u1161")
    @example("\u1100-\u1161\u11a8")
    def test_the_canonical_form_of_a_canonical_form_is_itself(self, text):
        """Canonicalising a canonical registration changes nothing."""
        plate = canonical_registration(text)
        assert plate is None or canonical_registration(plate) == plate

    @given(ANY_TEXT | HARD_TEXT)
    def test_it_has_one_to_twelve_letters_or_digits(self, text):
        """Every result has only upper-case letters and decimal digits."""
        plate = canonical_registration(text)
        if plate is not None:
            assert 1 <= len(plate) <= REGISTRATION_CHARACTERS_MAX
            assert {unicodedata.category(c)[0] for c in plate} <= {"L", "N"}
            assert plate == unicodedata.normalize("NFKC", plate.upper())

    @given(HARD_TEXT, st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
    def test_the_encoding_of_a_letter_makes_no_difference(self, text, form):
        """Composed, decomposed and full-width letters give the same plate."""
        as_sent = unicodedata.normalize(form, text)
        assert canonical_registration(as_sent) == canonical_registration(text)

    @pytest.mark.parametrize("codes", [range(0x3000), range(0xF900, 0x10000)], ids=["0", "F9"])
    def test_every_single_character_is_stable(self, codes):
        """The canonical form of any single character is canonical."""
        plates = filter(None, {canonical_registration(chr(code)) for code in codes})
        assert [plate for plate in plates if canonical_registration(plate) != plate] == []


def plainly(text: str) -> str | None:
    """Apply D19 word for word, however slowly."""
    if len(text) > 100:
        return None
    folded = unicodedata.normalize("NFKC", text).upper()
    dropped = "-\u2010\u2011\u2012\u2013\u2014\u2212\xb7"
    kept = [c for c in folded if c not in dropped and unicodedata.category(c) != "Zs"]
    plate = unicodedata.normalize("NFKC", "".join(kept))
    is_plate = all(c.isalpha() or c.isdecimal() for c in plate)
    return plate if is_plate and 1 <= len(plate) <= 12 else None


def seconds_for(text: str) -> float:
    """Return the processor time of a thousand calls, the best of five."""
    times = []
    for _ in range(5):
        began = process_time()
        for _ in range(1_000):
            canonical_registration(text)
        times.append(process_time() - began)
    return min(times)


class TestHostileText:
    @given(ANY_TEXT | HARD_TEXT | LONG_TEXT)
    @example("\u1f82" * 12)
    @example(unicodedata.normalize("NFD", "\u1f82") * 12)
    @example(unicodedata.normalize("NFD", "각") * 12 + "\u3000" * 60)
    @example("A" + "\ufe31" * 99)
    @example("\ufdfb" + "\u1680" * 99)
    @example("\u03b1\u0345 \u0301")
    @example("ZH\u0387123456")
    def test_the_limits_refuse_no_plate(self, text):
        """The limits on work refuse and change nothing that D19 accepts."""
        assert canonical_registration(text) == plainly(text)

    def test_no_letter_has_more_than_four_parts(self):
        """No letter has more than four parts, so 48 characters suffice for twelve letters."""
        letters = map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)])
        assert max(len(unicodedata.normalize("NFD", letter)) for letter in letters) == 4

    def test_every_separator_is_known(self):
        """Every character that NFKC turns into a space or hyphen is dropped."""
        dashes = set("-\u2010\u2011\u2012\u2013\u2014\u2212")
        for code in (*range(0xD800), *range(0xE000, sys.maxunicode + 1)):
            folded = unicodedata.normalize("NFKC", chr(code))
            if all(c in dashes or unicodedata.category(c) == "Zs" for c in folded):
                assert canonical_registration(f"Ü{chr(code)}") == "Ü", hex(code)

    @each_row(
        "text",
        [
            "\ufdfa" * 33,
            "\ufdfa" * 100,
            "\u3316" * 33,
            "\u0390" * 50,
            "\u1161" * 33,
            "a" + "\u0301\u0323" * 49,
            "Ü" + "\u3000" * 99,
        ],
        ids=["18-fold", "18-fold, long", "6-fold", "composed", "composing", "marks", "spaces"],
    )
    def test_it_costs_little_more_than_an_ordinary_plate(self, text):
        """No input takes more than 20 times as long as an ordinary plate with an umlaut."""
        assert seconds_for(text) < 20 * seconds_for("MÜ AB 123")
