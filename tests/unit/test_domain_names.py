"""Which texts are domain names, and their canonical form."""

import json
import re
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import app.documentation
from app.domains.names import canonical_domain_name
from tests.rows import each_row

LABEL_63 = "a" * 63
NAME_253 = ".".join([LABEL_63] * 3 + ["b" * 61])
SCHEMAS = json.loads((Path(app.documentation.__file__).parent / "openapi.json").read_bytes())
DOCUMENTED = SCHEMAS["components"]["schemas"]["DomainName"]

labels = st.one_of(
    st.text(max_size=8),
    st.text("abz09-.", max_size=8),
    st.text("ab1-xn\u00e4\u00df\u0645\u05d0\u200c\u200d\u3002\u0301\u1e9e\uff0e", max_size=8),
    st.from_regex(r"xn--[a-z0-9-]{1,12}", fullmatch=True),
)
texts = st.lists(labels, max_size=4).map(".".join)


@each_row(
    ("text", "canonical"),
    [
        ("a.b", "a.b"),
        ("Example.COM", "example.com"),
        ("example.com.", "example.com"),
        ("a-b.c--d.example", "a-b.c--d.example"),
        ("1.example", "1.example"),
        ("a.1b", "a.1b"),
        ("0x7f.0x0", "0x7f.0x0"),
        (f"{LABEL_63}.example", f"{LABEL_63}.example"),
        (NAME_253, NAME_253),
        (f"{NAME_253}.", NAME_253),
        ("münchen.de", "xn--mnchen-3ya.de"),
        ("MÜNCHEN.DE", "xn--mnchen-3ya.de"),
        ("mu\u0308nchen.de", "xn--mnchen-3ya.de"),
        ("xn--mnchen-3ya.de", "xn--mnchen-3ya.de"),
        ("XN--MNCHEN-3YA.DE", "xn--mnchen-3ya.de"),
        ("faß.de", "xn--fa-hia.de"),
        ("\uff45\uff58.example", "ex.example"),
        ("a\u3002example\u3002", "a.example"),
        ("a\u00ad.example", "a.example"),
        ("\u212a.example", "k.example"),
        ("例え.テスト", "xn--r8jz45g.xn--zckzah"),
    ],
)
def test_a_name_has_one_canonical_form(text, canonical):
    """The form is lower case, without a final dot, with A-labels by UTS 46."""
    assert canonical_domain_name(text) == canonical


@each_row(
    "text",
    [
        "",
        ".",
        "..",
        "example",
        "example.",
        ".example.com",
        "a..com",
        "a.com..",
        "a.com\n",
        "\na.com",
        "a .com",
        "a.com\x00",
        "a_b.com",
        "*.com",
        "-a.com",
        "a-.com",
        "a.-b",
        "a.b-",
        "1.2.3.4",
        "example.123",
        "\uff11.\uff12",
        "::1",
        "[::1]",
        "http://a.com",
        "a.com:80",
        "a.com/",
        "a@b.com",
        "a%2eb.com",
        f"{LABEL_63}a.com",
        f"{NAME_253}c",
        "ü" * 60 + ".com",
        "\ufffd.com",
        "\u200d.com",
        "☃.com",
        "xn--.com",
        "xn--a.com",
        "xn--e28h.com",
        "xn--ls8h.com",
    ],
)
def test_everything_else_is_no_name(text):
    """Wildcards, addresses, schemes, ports, blanks, and labels that are too long are refused."""
    assert canonical_domain_name(text) is None


def test_long_texts_are_refused_unread():
    """IDNA takes more than linear time, so a text of megabytes is refused before it."""
    ignored = "\u00ad"  # a soft hyphen, which UTS 46 leaves out
    assert canonical_domain_name("a.example".ljust(1_000, ignored)) == "a.example"
    assert canonical_domain_name("a.example".ljust(1_001, ignored)) is None
    assert canonical_domain_name("ü." * 500_000) is None


@given(texts)
def test_any_text_is_a_name_or_none(text):
    """Every text is refused, or becomes a name that fits the documented pattern."""
    name = canonical_domain_name(text)
    if name is not None:
        assert DOCUMENTED["minLength"] <= len(name) <= DOCUMENTED["maxLength"]
        assert re.search(DOCUMENTED["pattern"], name)


@given(texts)
def test_a_canonical_form_is_its_own(text):
    """A canonical name is accepted unchanged, also in upper case and with a final dot."""
    name = canonical_domain_name(text)
    if name is not None:
        assert canonical_domain_name(name) == name
        assert canonical_domain_name(f"{name.upper()}.") == name


@given(st.lists(st.from_regex(r"[a-z]([a-z0-9]{0,20}[a-z0-9])?", fullmatch=True), min_size=2))
def test_plain_names_are_names(parts):
    """Two or more labels of letters and digits are a name if they fit."""
    text = ".".join(parts)
    assert canonical_domain_name(text) == (text if len(text) <= 253 else None)
