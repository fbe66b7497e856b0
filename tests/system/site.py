"""The shipped nginx site in front of one service."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.system.nginx import adapted, configured, make_certificate, running
from tests.system.processes import ROOT, free_port

SITE = ROOT / "deploy" / "nginx" / "verifyd.conf"
SECRET = "0123456789abcdef" * 4
"""Of the proxies that `add_sign_in` sets up."""


def command_with_site(upstream: str, bind: str, directory: Path, *, before: str = "") -> list[str]:
    """Return the command that runs nginx with the shipped site for `ADDRESS` or `unix:/PATH`.

    Only addresses, file paths and the form of `http2` are changed; the tests' nginx would warn of
    the last.
    """
    make_certificate(directory)
    changes = {
        "listen 443 ssl http2 default_server ": f"http2 on; listen {bind} ssl default_server ",
        "    listen [::]:443 ssl http2 default_server sndbuf=32k;\n": "",
        "/etc/verifyd/tls/privkey.pem": f"{directory}/key.pem",
        "/etc/verifyd/tls/": f"{directory}/",
        "/etc/verifyd/nginx/": f"{directory}/nginx/",
        "/var/log/nginx/": f"{directory}/",
        "unix:/run/verifyd.sock": upstream,
    }
    return configured(directory, before + adapted(SITE.read_text(), changes))


def add_sign_in(directory: Path, example: str, changes: Mapping[str, str] | None = None) -> None:
    """Add an example of a sign-in by a directory to the site that will run in `directory`.

    Args:
        example: what its two files have in their names.
        changes: texts in these files, and what to write instead.
    """
    added = directory / "nginx"
    added.mkdir()
    (added / "secret.conf").write_text(f"proxy_set_header X-Verifyd-Proxy-Secret {SECRET};\n")
    files = [f"http-{example}.conf", f"server-{example}.conf"]
    texts = {name: (SITE.parent / name).read_text() for name in files}
    changes = {"/etc/verifyd/nginx/": f"{added}/", **(changes or {})}
    for shipped, here in changes.items():
        assert any(shipped in text for text in texts.values())
        texts = {name: text.replace(shipped, here) for name, text in texts.items()}
    for name, text in texts.items():
        (added / name).write_text(text)


@contextmanager
def behind_site(upstream: str, directory: Path, *, before: str = "") -> Iterator[str]:
    """Run nginx with the shipped site; yield its TLS address.

    Args:
        before: directives of `http {}` that a test adds.
    """
    bind = f"127.0.0.1:{free_port()}"
    with running(command_with_site(upstream, bind, directory, before=before), bind):
        yield f"tls:{bind}"
