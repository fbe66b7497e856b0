"""The shipped nginx site in front of one service."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.nginx import configured, make_certificate, running
from tests.system.processes import ROOT, free_port

SITE = ROOT / "deploy" / "nginx" / "verifyd.conf"


def command_with_site(upstream: str, bind: str, directory: Path, *, before: str = "") -> list[str]:
    """Return the command that runs nginx with the shipped site for `ADDRESS` or `unix:/PATH`.

    Only addresses, file paths and the form of `http2` are changed; the tests' nginx would warn of
    the last.
    """
    make_certificate(directory)
    text = SITE.read_text()
    for shipped, here in {
        "listen 443 ssl http2 default_server ": f"http2 on; listen {bind} ssl default_server ",
        "    listen [::]:443 ssl http2 default_server sndbuf=32k;\n": "",
        "/etc/verifyd/tls/privkey.pem": f"{directory}/key.pem",
        "/etc/verifyd/tls/": f"{directory}/",
        "/var/log/nginx/": f"{directory}/",
        "unix:/run/verifyd.sock": upstream,
    }.items():
        assert shipped in text
        text = text.replace(shipped, here)
    return configured(directory, before + text)


@contextmanager
def behind_site(upstream: str, directory: Path, *, before: str = "") -> Iterator[str]:
    """Run nginx with the shipped site; yield its TLS address.

    Args:
        before: directives of `http {}` that a test adds.
    """
    bind = f"127.0.0.1:{free_port()}"
    with running(command_with_site(upstream, bind, directory, before=before), bind):
        yield f"tls:{bind}"
