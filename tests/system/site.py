"""The shipped nginx site in front of one service."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.system.nginx import configured, make_certificate, running
from tests.system.processes import ROOT, free_port

SITE = ROOT / "deploy" / "nginx" / "verifyd.conf"


def command_with_site(upstream: str, bind: str, directory: Path) -> list[str]:
    """Return the command that runs nginx with the shipped site before `ADDRESS` or `unix:/PATH`.

    Nothing in it is changed but addresses and the places of files.
    """
    make_certificate(directory)
    text = SITE.read_text()
    for shipped, here in {
        "listen 443 ssl default_server;": f"listen {bind} ssl default_server;",
        "    listen [::]:443 ssl default_server;\n": "",
        "/etc/verifyd/tls/privkey.pem": f"{directory}/key.pem",
        "/etc/verifyd/tls/": f"{directory}/",
        "/var/log/nginx/": f"{directory}/",
        "unix:/run/verifyd.sock": upstream,
    }.items():
        assert shipped in text
        text = text.replace(shipped, here)
    return configured(directory, text)


@contextmanager
def behind_site(upstream: str, directory: Path) -> Iterator[str]:
    """Run nginx with the shipped site; gives the address at which it speaks TLS."""
    bind = f"127.0.0.1:{free_port()}"
    with running(command_with_site(upstream, bind, directory), bind):
        yield f"tls:{bind}"
