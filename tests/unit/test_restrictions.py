"""What restricts a key: its networks in every notation, and its columns (D178)."""

import ipaddress
import re

import pytest

from app.accounts.models import ApiKey
from app.accounts.restrictions import (
    NETWORK_CHARACTERS_MAX,
    NETWORKS_MAX,
    Restrictions,
    hash_columns,
    network,
)
from app.errors import OperatorError
from tests.rows import each_row

MEANT = {
    "203.0.113.0/24": "203.0.113.0/24",
    "203.0.113.7": "203.0.113.7/32",
    "0.0.0.0/0": "0.0.0.0/0",
    "2001:DB8::/32": "2001:db8::/32",
    "2001:db8:0:0:0:0:0:1": "2001:db8::1/128",
    "::/0": "::/0",
    "::1": "::1/128",
    "::ffff:203.0.113.7": "203.0.113.7/32",
    "::ffff:203.0.113.0/120": "203.0.113.0/24",
    "::ffff:cb00:7100/120": "203.0.113.0/24",
    "::ffff:0:0/96": "0.0.0.0/0",
}
RULE = "must be an address or network such as 203.0.113.0/24 or 2001:db8::/32"
BITS = "has bits after its prefix; write {} for the network, or {} for the address"
REFUSED = {
    "203.0.113.7/24": BITS.format("203.0.113.0/24", "203.0.113.7"),
    "10.0.0.1/0": BITS.format("0.0.0.0/0", "10.0.0.1"),
    "2001:db8::1/32": BITS.format("2001:db8::/32", "2001:db8::1"),
    "::ffff:203.0.113.7/120": BITS.format("203.0.113.0/24", "203.0.113.7"),
    # From Python 3.13 on, the address is written ::ffff:0.0.0.0.
    "::ffff:0:0/90": BITS.format("::ffc0:0:0/90", ipaddress.IPv6Address("::ffff:0:0")),
    "fe80::1%eth0": f"{RULE}, without a zone",
    "fe80::%1/64": f"{RULE}, without a zone",
    **dict.fromkeys(
        [
            *("", "/", "/8", "10.0.0.0/", "10.0.0.0/33", "::/129", "10.0.0.0/-1", "10.0.0.0/+8"),
            *("010.0.0.0/8", "10.0.0.0/08", "10.0.0.0/008", "0x0a000000/8", "167772160", "10/8"),
            *("10.0.0.0/255.0.0.0", "10.0.0.0/0.255.255.255", "10.0.0.0/8/8", "10.0.0.0 /8"),
            *("10.0.0.0/8,192.0.2.0/24", "10.0.0.*", "10.0.0.0-10.0.0.9", "localhost", "[::1]"),
            *(" ::1", "203.0.113.7:443", "unix:", "*", "any", "\u0661.0.0.0/8", "10.0.0.0/\u0668"),
            *("\u00e9", "\0", "9" * 10_000),
        ],
        RULE,
    ),
}


@each_row("text", MEANT)
def test_a_network_has_one_form(text):
    """Every notation of a network is stored alike, and IPv4 in IPv6 as IPv4."""
    assert network(text) == MEANT[text]


@each_row("text", REFUSED)
def test_what_is_no_network_is_refused(text):
    """The refusal says what was probably meant, and repeats nothing that is no network."""
    with pytest.raises(ValueError, match=f"^{re.escape(REFUSED[text])}$"):
        network(text)
    with pytest.raises(OperatorError, match=f"^network 2 {re.escape(REFUSED[text])}$"):
        Restrictions(None, ["::1", text]).columns()


def test_a_key_has_few_networks():
    """Each counts once, and more than 20 are refused."""
    networks = [f"10.0.{number}.0/24" for number in range(NETWORKS_MAX)]
    assert Restrictions(None, networks * 2).columns() == {
        "only": "",
        "networks": ",".join(networks),
    }
    with pytest.raises(OperatorError, match="at most 20 networks, not 21"):
        Restrictions(None, [*networks, "::/0"]).columns()
    assert len(network("ffff:" * 7 + "ffff")) <= NETWORK_CHARACTERS_MAX


@each_row(
    ("only", "networks", "words"),
    [
        (None, [], ""),
        ("domains", [], "only domains"),
        (None, ["::/0"], "from ::/0"),
        ("vehicles", ["::/0", "10.0.0.0/8"], "only vehicles, from 2 networks"),
    ],
)
def test_lists_show_few_words(only, networks, words):
    """Several networks are counted."""
    assert Restrictions(only, networks).in_words() == words


def test_pages_of_one_key_show_all_networks():
    """They have room for them."""
    restrictions = Restrictions("domains", ["::/0", "10.0.0.0/8"])
    assert restrictions.in_words(shows_all=True) == "only domains, from ::/0, 10.0.0.0/8"
    assert Restrictions("domains", []).in_words(shows_all=True) == "only domains"


@each_row("columns", [{"only": "domains", "networks": ""}, {"only": "", "networks": "::/0"}])
def test_the_hash_of_a_restricted_key_is_hidden_from_earlier_programs(columns):
    """The column that they read has a text of the length of a hash, which is none."""
    hashes = hash_columns("a" * 64, columns)
    assert hashes["restricted_hash"] == "a" * 64
    assert len(hashes["secret_hash"]) == ApiKey.secret_hash.max_length
    assert set(hashes["secret_hash"]) - set("0123456789abcdef")
    assert hash_columns("a" * 64, {"only": "", "networks": ""}) == {"secret_hash": "a" * 64}
