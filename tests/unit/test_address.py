"""Client addresses, and which proxies are trusted (D2, D10)."""

import ipaddress

import falcon.testing

from app.serve.http.address import client_address, is_local
from app.serve.http.context import Request
from tests.rows import each_row

PROXIES = (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8"))


def request(peer, **headers):
    environ = falcon.testing.create_environ(headers=headers or None)
    return Request({**environ, "REMOTE_ADDR": peer})


def found(peer, real_ip=None, trusted=PROXIES):
    """Return the client's address as text."""
    headers = {} if real_ip is None else {"X-Real-IP": real_ip}
    address = client_address(request(peer, **headers), trusted)
    return address and str(address)


@each_row(
    ("peer", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("10.0.0.1", "10.0.0.1"),
        ("", None),
    ],
)
def test_without_a_header_the_peer_is_the_client(peer, address):
    """An IPv4-mapped peer is its IPv4 address; a peer on a Unix socket has none."""
    assert found(peer) == address


@each_row("peer", ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1", ""])
def test_a_trusted_proxy_names_its_client(peer):
    """A peer on the Unix socket or in the trusted networks names its client."""
    assert found(peer, "198.51.100.7") == "198.51.100.7"
    assert found(peer, "::ffff:198.51.100.7") == "198.51.100.7"


@each_row("peer", ["192.0.2.1", "127.0.0.1", "11.0.0.1", "2001:db8::1"])
def test_other_peers_are_not_trusted(peer):
    """A client cannot choose its own address, not even on loopback."""
    assert found(peer, "198.51.100.7") == peer


def test_without_trusted_proxies_only_the_socket_is_believed():
    """By default no network address is trusted."""
    assert found("10.1.2.3", "198.51.100.7", trusted=()) == "10.1.2.3"
    assert found("", "198.51.100.7", trusted=()) == "198.51.100.7"


@each_row("peer", ["10.1.2.3", "fd00::1", ""])
@each_row(
    "real_ip",
    [
        "",
        "x",
        "unix:",
        "unknown",
        "203.0.113.7:80",
        "[2001:db8::1]",
        "[2001:db8::1]:443",
        "198.51.100.7, 127.0.0.1",
        "127.0.0.1,198.51.100.7",
        ",127.0.0.1",
        "::1%x,198.51.100.7",
        "fe80::1%eth0",
        "127.0.0.01",
        "127.1",
        "2130706433",
        "127.0.0.1/32",
        "\u0661.0.0.1",
    ],
)
def test_a_client_with_an_invalid_address_has_none(peer, real_ip):
    """With anything but one address, the request does not count as the proxy's own."""
    assert found(peer, real_ip) is None


def test_a_trusted_proxy_that_forwards_nothing_is_the_client():
    """A request that the proxy's host makes itself has no forwarding header."""
    assert found("10.1.2.3") == "10.1.2.3"


@each_row("peer", ["10.1.2.3", ""])
@each_row("header", ["X-Forwarded-For", "Forwarded"])
@each_row("value", ["198.51.100.7", "for=198.51.100.7", ""])
def test_other_headers_are_never_believed(peer, header, value):
    """Only X-Real-IP names a client; another header only tells that there is one."""
    assert client_address(request(peer, **{header: value}), PROXIES) is None


@each_row("header", ["X-Real-IP", "X-Forwarded-For", "Forwarded"])
@each_row("value", ["198.51.100.7", "203.0.113.7:80", "x", ""])
def test_headers_of_other_peers_change_nothing(header, value):
    """Valid or not, what a client states about its address is ignored."""
    assert str(client_address(request("192.0.2.1", **{header: value}), PROXIES)) == "192.0.2.1"


@each_row("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", ""])
def test_loopback_and_unix_sockets_are_local(peer):
    """A peer on this machine that forwards nothing is local."""
    assert is_local(request(peer), ())


@each_row("peer", ["192.0.2.1", "10.1.2.3", "0.0.0.0", "::", "2001:db8::1"])
def test_other_peers_are_not_local(peer):
    """A trusted proxy is not local either."""
    assert not is_local(request(peer), PROXIES)


@each_row("peer", ["127.0.0.1", "::1", "", "10.1.2.3", "192.0.2.1"])
@each_row("header", ["X-Real-IP", "X-Forwarded-For", "Forwarded"])
@each_row("value", ["127.0.0.1", "::1", "198.51.100.7", "x", ""])
def test_a_forwarded_request_is_not_local(peer, header, value):
    """A request with any forwarding header comes from somewhere else."""
    assert not is_local(request(peer, **{header: value}), PROXIES)
