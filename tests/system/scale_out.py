"""Several hosts, each a server with its own state, with the shipped nginx configuration."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from app.accounts.administration import create_account, create_key, set_plan
from app.storage.engine import close_quietly, open_engine
from app.storage.stores import migrate
from tests.system.nginx import adapted, configured, make_certificate, pid_of, running
from tests.system.processes import ROOT, Service, descendants, free_port, until

HOUR_SECONDS = 3600
FOLDER = ROOT / "deploy" / "scale-out"


def command_before(hosts: Sequence[str], bind: str, directory: Path) -> list[str]:
    """Return the command that runs nginx with the shipped configuration for these hosts.

    Only addresses, file paths and the form of `http2` are changed; the tests' nginx would warn of
    the last.
    """
    make_certificate(directory)
    changes = {
        "listen 443 ssl http2 ": f"http2 on; listen {bind} ssl ",
        "    listen [::]:443 ssl http2 sndbuf=32k;\n": "",
        "/etc/ssl/verifyd/": f"{directory}/",
        "/etc/verifyd/nginx/": f"{directory}/nginx/",
        "/var/log/nginx/": f"{directory}/",
        "10.0.0.11:8000": hosts[0],
        "10.0.0.12:8000": hosts[1],
    }
    return configured(directory, adapted((FOLDER / "nginx.conf").read_text(), changes))


@contextmanager
def balanced(hosts: Sequence[str], directory: Path) -> Iterator[str]:
    """Run nginx in front of these hosts; yield its TLS address."""
    bind = f"127.0.0.1:{free_port()}"
    with running(command_before(hosts, bind, directory), bind):
        yield f"tls:{bind}"


class Installation:
    """Two hosts behind nginx, on one database.

    Args:
        database_url: an empty database.
        settings: further settings of the hosts.
    """

    def __init__(
        self, directory: Path, database_url: str, running: ExitStack, **settings: Any
    ) -> None:
        self.directory = directory
        self._database_url = database_url
        self._running = running
        self._settings = settings
        self.engine = open_engine(database_url)
        running.callback(close_quietly, self.engine)
        migrate(self.engine)
        self._names: tuple[str, ...] = ("first", "second")
        self.hosts = [self._start(name, f"127.0.0.1:{free_port()}") for name in self._names]
        for host in self.hosts:
            host.wait_ready()
        self.bind = running.enter_context(balanced([host.bind for host in self.hosts], directory))

    def key_of(self, account: str, *, requests: int) -> str:
        """Create an account with this many requests per hour, and a key of it."""
        limits = {"window_seconds": HOUR_SECONDS, "bulk_max": 10, "domains_max": 1_000_000}
        set_plan(self.engine, account, {**limits, "requests": requests})
        create_account(self.engine, account, account)
        return create_key(self.engine, account)[1].text

    def host_of(self, request_id: str | None) -> Service:
        """Return the host that answered a request, from its access log."""
        (host,) = (
            host
            for host in self.hosts
            if any(line["request_id"] == request_id for line in host.lines("stdout"))
        )
        return host

    def start_again(self, host: Service) -> None:
        """Start the server of a killed host again, with the same state."""
        place = self.hosts.index(host)
        self.hosts[place] = self._start(self._names[place], host.bind).wait_ready()

    def start_another(self) -> Service:
        """Start a third host, which nginx does not know yet."""
        self._names += ("third",)
        self.hosts.append(self._start("third", f"127.0.0.1:{free_port()}").wait_ready())
        return self.hosts[-1]

    def reconfigure(self, old: str, new: str) -> None:
        """Change nginx's configuration in one place, and reload it.

        Returns when the reload is finished.
        """
        site = self.directory / "site.conf"
        text = site.read_text()
        assert text.count(old) == 1
        site.write_text(text.replace(old, new))
        nginx = pid_of(self.directory)
        former = set(descendants(nginx))
        os.kill(nginx, signal.SIGHUP)
        until(lambda: former.isdisjoint(descendants(nginx)), "nginx's former workers to end")

    def _start(self, name: str, bind: str) -> Service:
        host = Service(
            self.directory,
            bind,
            workers=2,
            trusted_proxies="127.0.0.1",
            database_url=self._database_url,
            state_dir=self.directory / name,
            **self._settings,
        )
        return self._running.enter_context(host)


@contextmanager
def installed(directory: Path, database_url: str, **settings: Any) -> Iterator[Installation]:
    """Run two hosts behind nginx until the end of the `with`."""
    with ExitStack() as running:
        yield Installation(directory, database_url, running, **settings)
