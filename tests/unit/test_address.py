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


@each_row("real_ip", ["", "x", "198.51.100.7, 198.51.100.8", "198.51.100.7:80"])
def test_a_header_that_is_no_address_does_not_count(real_ip):
    """With a malformed header the request counts as the proxy's own."""
    assert found("10.1.2.3", real_ip) == "10.1.2.3"


def test_other_headers_are_never_believed():
    """Only X-Real-IP is trusted: nginx sets it, and clients can set the other headers."""
    headers = {"X-Forwarded-For": "198.51.100.7", "Forwarded": "for=198.51.100.7"}
    assert str(client_address(request("10.1.2.3", **headers), PROXIES)) == "10.1.2.3"


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
