"""The console at an address of its own, `VERIFYD_CONSOLE_BIND`, with real processes."""

import re
import sys
from pathlib import Path

import pytest

from app.console.rendering import ROOT
from app.people.sessions import create_link
from app.settings.roles import Role
from tests.system.nginx import running
from tests.system.processes import SERVE, free_port, run_command, send
from tests.system.site import SITE, command_with_site

# Creates the sockets that are named, and hands them over like systemd's.
_PASSING = """
import os, socket, sys
*paths, _ = names = sys.argv[1:sys.argv.index("--") + 1]
for number, path in enumerate(paths, 3):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    os.dup2(listener.detach(), number)
os.environ |= {"LISTEN_FDS": str(len(paths)), "LISTEN_PID": str(os.getpid())}
command = sys.argv[len(names) + 1 :]
os.execv(command[0], command)
"""
_OF_THE_API = ("/healthz", "/readyz", "/metrics", "/docs", "/openapi.json", "/v1/account")


def passing(*paths: Path) -> list[str]:
    """Return the command of a service that is passed these sockets."""
    # The interpreter would get the lowest numbers for itself.
    taking = ("sh", "-c", 'exec 3</dev/null 4</dev/null; exec "$@"', "sh")
    return [*taking, sys.executable, "-c", _PASSING, *map(str, paths), "--", *SERVE]


def require_divided(main: str, console: str, world) -> None:
    """Fail unless one address has the API alone, and the other the console alone."""
    for path in (ROOT, f"{ROOT}/", f"{ROOT}/people", f"{ROOT}/sign-in/x", "/%63onsole"):
        answer = send(main, "GET", path, headers={"X-API-Key": world.alice_key})
        assert (answer.status, answer.json()["code"]) == (404, "not_found"), path
    assert send(main, "GET", "/healthz").status == 200
    for path in _OF_THE_API:
        answer = send(console, "GET", path, headers={"X-API-Key": world.alice_key})
        assert (answer.status, answer.media_type) == (401, "text/html"), path
    start = send(console, "GET", "/")
    assert (start.status, start.headers["Location"]) == (303, "console")
    link = f"{ROOT}/sign-in/{create_link(world.engine, 'ann', Role.VIEWER)}"
    headers = {"Sec-Fetch-Site": "same-origin"}
    assert send(main, "POST", link, headers=headers).status == 404
    cookie = send(console, "POST", link, headers=headers).headers["Set-Cookie"].partition(";")[0]
    page = send(console, "GET", ROOT, headers={"Cookie": cookie})
    assert page.status == 200
    loaded = re.findall(rb'<(?:link|script|img)[^>]* (?:href|src)="([^"]+)"', page.body)
    for path in loaded:
        assert send(console, "GET", f"/{path.decode()}").status == 200
    assert b'href="docs"' not in page.body
    assert send(console, "GET", "/nothing", headers={"Cookie": cookie}).status == 404
    assert send(main, "GET", ROOT, headers={"Cookie": cookie}).status == 404


@pytest.mark.parametrize("kind", ["socket", pytest.param("address", marks=pytest.mark.system_long)])
def test_each_address_has_its_own_pages(world, serve, socket_directory, kind):
    """The main address knows no console, and the console's knows nothing else, in every worker."""
    path = socket_directory / "console"
    bind = f"unix:{path}" if kind == "socket" else f"127.0.0.1:{free_port()}"
    served = serve(console="on", console_bind=bind)
    require_divided(served.bind, bind, world)
    if kind == "socket":
        assert path.stat().st_mode & 0o777 == 0o660
    assert served.stop() == 0
    assert not path.exists()


@pytest.mark.parametrize(
    "passed",
    [
        ("console", "main"),
        pytest.param(("main", "console"), marks=pytest.mark.system_long),
        pytest.param(("main",), marks=pytest.mark.system_long),
    ],
)
def test_systemd_passes_the_sockets(world, serve, socket_directory, passed):
    """Which socket is the console's is decided by its path; one that is not passed is opened."""
    main, console = (f"unix:{socket_directory}/{name}" for name in ("main", "console"))
    command = passing(*(socket_directory / name for name in passed))
    # The service does not look at VERIFYD_BIND, which is another one on an installed host.
    settings = {"console": "on", "console_bind": console}
    served = serve(command=command, bind="127.0.0.1:1", wait=False, **settings)
    served.bind = main
    served.wait_ready()
    require_divided(main, console, world)


def test_a_link_has_the_address_of_the_console(world, serve):
    """By default that of `VERIFYD_CONSOLE_BIND`; `--url` names another."""
    bind = f"127.0.0.1:{free_port()}"
    settings = {"console": "on", "console_bind": bind, "database_url": world.config.database_url}
    serve(**settings)
    words = ("console", "link", "--as", "ann", "--role", "viewer")
    link = run_command(*words, **settings).stdout.splitlines()[0]
    assert link.startswith(f"http://{bind}{ROOT}/sign-in/")
    assert send(bind, "GET", link.removeprefix(f"http://{bind}")).status == 200


@pytest.mark.system_long
def test_a_link_has_the_name_of_the_host_where_systemd_passes_the_socket(
    world, serve, socket_directory
):
    """As on an installed host, whose settings do not name the socket."""
    settings = {"console": "on", "state_dir": world.config.state_dir}
    path = socket_directory / "main"
    served = serve(command=passing(path), wait=False, **settings)
    served.bind = f"unix:{path}"
    served.wait_ready()
    words = ("console", "link", "--as", "ann", "--role", "viewer")
    asked = run_command(*words, database_url=world.config.database_url, **settings)
    assert asked.stdout.startswith("https://"), asked


@pytest.mark.system_long
def test_a_killed_service_leaves_nothing_in_the_way(world, serve, socket_directory):
    """The next start replaces the socket's file, which nobody listens at."""
    settings = {"console": "on", "console_bind": f"unix:{socket_directory}/console"}
    serve(**settings).kill()
    assert (socket_directory / "console").exists()
    assert send(serve(**settings) and settings["console_bind"], "GET", ROOT).status == 401


def test_the_console_behind_nginx_can_be_reached_in_one_way_only(
    world, serve, socket_directory, tmp_path
):
    """As documented: whatever the path, only the guarded location leads to the console."""
    page = (SITE.parent.parent / "docs/staff.md").read_text()
    (location,) = re.findall(r"```nginx\n(location ~ \^/console.*?)```", page, re.DOTALL)
    console = f"unix:{socket_directory}/console"
    served = serve(
        bind=f"unix:{socket_directory}/main", console="on", console_bind=console, workers=1
    )
    bind = f"127.0.0.1:{free_port()}"
    command = command_with_site(served.bind, bind, tmp_path)
    text = (tmp_path / "site.conf").read_text()
    shown = "unix:/run/verifyd-console.sock"
    assert shown in page
    guarded = location.replace("http://verifyd", f"http://{console}").replace("192.0.2.0/24", "{}")
    for network, status in (("192.0.2.0/24", 403), ("127.0.0.0/8", 401)):
        site = text.replace("    location / {", guarded.replace("{}", network) + "    location / {")
        (tmp_path / "site.conf").write_text(site)
        with running(command, bind):
            for path in (ROOT, f"{ROOT}/people", "//console", f"{ROOT}/x/%252e%252e"):
                assert send(f"tls:{bind}", "GET", path).status == status, path
            for path in (f"{ROOT}/..", f"{ROOT}%2f..", f"{ROOT}/people/../../docs"):
                assert send(f"tls:{bind}", "GET", path).status == 404, path
