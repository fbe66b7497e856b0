"""The installer: scripts and units pass their linters, and a tree has the documented layout."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.config import SETTINGS
from app.settings import time_zones
from tests.contract.pages import quoted, table
from tests.programs import needs
from tests.system.processes import ROOT

DEPLOY = ROOT / "deploy"
FILES = (DEPLOY / "docs" / "files.md").read_text()
UNITS = sorted((DEPLOY / "systemd").glob("verifyd*"))
MAN_PAGES = [str(path.relative_to(DEPLOY / "man")) for path in (DEPLOY / "man").glob("*/*")]
# The unit that delivers alerts runs a setgid sendmail, and says why it has more rights.
OPEN = "verifyd-notify"
SERVICES = [unit.stem for unit in UNITS if unit.suffix == ".service" and unit.stem != OPEN]
MOST_EXPOSED = 1.5
DEFAULTS = {
    "VERIFYD_DATA_DIR": "/var/lib/verifyd",
    "VERIFYD_CERTIFICATE": "/etc/verifyd/tls/fullchain.pem",
}
"""Of an installation, where the program has none of its own."""
UNSIGNED = "verifyd: warning: this release is not signed\n"
NEED_SYSTEMD = needs("systemd-analyze", "systemd")


ABOVE = ("CHANGELOG.md", "SECURITY.md")
"""Pages that are above `deploy` in the source, and are installed."""


def copy_above(directory: Path) -> None:
    """Copy these pages into a directory."""
    for name in ABOVE:
        shutil.copy(ROOT / name, directory)


class Tree:
    """An empty directory tree, and a stand-in for the binary, which prints its version."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "root"
        self.root.mkdir()
        self.deploy = directory / "deploy"
        shutil.copytree(DEPLOY, self.deploy)
        self.binary = directory / "verifyd"
        self.binary.write_text('#!/bin/sh\necho \'  "version": "1.2.3",\'\n')
        self.binary.chmod(0o755)

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run the installer and return how it ended."""
        command: list[object] = [self.deploy / "install.sh", "--prefix", self.root]
        if not (self.deploy / "SHA256SUMS").exists():  # A release has its own binary.
            command += ["--binary", self.binary]
        command += words
        return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)

    def install(self, *words: object) -> str:
        """Run the installer, which must succeed, and return its output."""
        ended = self.run(*words)
        assert (ended.returncode, ended.stderr.removeprefix(UNSIGNED)) == (0, "")
        return ended.stdout

    def change(self, name: str) -> None:
        """Replace a file by the version of a later release."""
        with (self.deploy / name).open("a") as file:
            file.write("# of a later release\n")

    def files(self) -> dict[str, tuple[bytes, int]]:
        """Return all files and links of the tree, with their modes."""
        return {
            str(path.relative_to(self.root)): (content(path), path.lstat().st_mode & 0o777)
            for path in self.root.rglob("*")
            if path.is_symlink() or path.is_file()
        }


def content(path: Path) -> bytes:
    """Return the content of a file, or the target of a link."""
    return str(path.readlink()).encode() if path.is_symlink() else path.read_bytes()


@pytest.fixture
def tree(tmp_path) -> Tree:
    """An empty directory tree."""
    return Tree(tmp_path)


def test_scripts_pass_their_linter():
    """Shellcheck finds nothing in any script."""
    shellcheck = Path(sys.executable).parent / "shellcheck"
    scripts = [*DEPLOY.rglob("*.sh"), *(ROOT / "tests").rglob("*.sh")]
    assert len(scripts) == 10
    findings = (ROOT / "findings").glob("*.sh")
    ended = subprocess.run(
        [shellcheck, *scripts, *findings], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "")


@NEED_SYSTEMD
def test_units_are_understood(tree):
    """Systemd knows every setting in the units, and their program exists."""
    tree.install()
    program = str(tree.root / "opt" / "verifyd" / "current")
    units = tree.root / "units"
    units.mkdir()
    for unit in UNITS:
        text = unit.read_text().replace("/opt/verifyd/current", program)
        if unit.suffix == ".service" and unit.stem != OPEN:
            text += (DEPLOY / "systemd" / "hardening.conf").read_text()
        (units / unit.name).write_text(text)
    words = ["systemd-analyze", "--man=no", "verify", *map(str, units.iterdir())]
    # Other packages of this machine can have units with faults. Without its directories of links a
    # target starts none of them.
    targets = tree.root / "targets"
    targets.mkdir()
    for target in Path("/lib/systemd/system").glob("*.target"):
        shutil.copy(target, targets)
    environ = {**os.environ, "SYSTEMD_UNIT_PATH": f"{units}:{targets}"}
    ended = subprocess.run(words, env=environ, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")


@NEED_SYSTEMD
@pytest.mark.parametrize("service", SERVICES)
def test_services_are_shut_in(tmp_path, service):
    """`systemd-analyze security` rates the exposure of each at 1.5 or less."""
    # Put the unit and its drop-ins into one file: offline, systemd reads only one.
    unit = tmp_path / f"{service}.service"
    dropped_in = DEPLOY / "systemd" / "hardening.conf"
    unit.write_text((DEPLOY / "systemd" / unit.name).read_text() + dropped_in.read_text())
    words = "systemd-analyze security --no-pager --offline=true".split()
    words += [f"--threshold={int(MOST_EXPOSED * 10)}", str(unit)]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    (overall,) = re.findall(r"Overall exposure level for \S+: ([0-9.]+)", ended.stdout)
    assert float(overall) <= MOST_EXPOSED
    assert ended.returncode == 0


def test_units_that_send_mail_keep_their_rights():
    """A sandbox that implies NoNewPrivileges would stop sendmail from queueing."""
    unit = (DEPLOY / "systemd" / f"{OPEN}.service").read_text()
    settings = set(re.findall(r"(?m)^(\w+)=", unit))
    assert not {name for name in settings if re.match("SystemCall|Restrict|ProtectKernel", name)}
    assert not settings & {
        *("NoNewPrivileges", "PrivateDevices", "PrivateUsers", "LockPersonality", "DynamicUser"),
        *("MemoryDenyWriteExecute", "ProtectClock", "ProtectHostname", "CapabilityBoundingSet"),
        *("IPAddressDeny", "ReadOnlyPaths"),
        "ProtectHome",  # Exim's child delivers to mailboxes there.
    }
    assert "ProtectSystem=full" in unit  # Not strict: the mail queue is below /var.


def test_every_setting_is_in_the_example():
    """Each setting occurs once, commented out with its default.

    Only the settings of the first release have a line of their own: an upgrade replaces a file that
    nobody edited, and a release that one goes back to refuses settings that it does not know.
    """
    text = (DEPLOY / "verifyd.env.example").read_text()
    told = re.findall(r"(?m)^(#?)(VERIFYD_\w+)=(.*)$", text)
    assert sorted(name for _, name, _ in told) == sorted(s.variable for s in SETTINGS.values())
    assert {name for mark, name, _ in told if not mark} == {
        "VERIFYD_DATABASE_URL",
        "VERIFYD_STATE_DIR",
    }
    defaults = {setting.variable: setting.default for setting in SETTINGS.values()} | DEFAULTS
    for mark, name, value in told:
        if mark and name != "VERIFYD_WORKERS":
            assert value == defaults[name]


def test_units_and_wrapper_have_defaults_for_new_settings():
    """The settings file names new settings in comments only, so units and wrapper have defaults."""
    wrapper = (DEPLOY / "verifyd.sh").read_text()
    hardening = (DEPLOY / "systemd" / "hardening.conf").read_text()
    notify = (DEPLOY / "systemd" / f"{OPEN}.service").read_text()
    for name, value in DEFAULTS.items():
        assert re.search(rf"(?m)^Environment=.*{name}={value}\b", hardening)
        assert f'{name}="${{{name}-{value}}}"' in wrapper
    data_dir = DEFAULTS["VERIFYD_DATA_DIR"]
    assert f"Environment=VERIFYD_DATA_DIR={data_dir}\n" in notify
    (watched,) = re.findall(
        r"(?m)^PathChanged=(.*)$", (DEPLOY / "systemd" / f"{OPEN}.path").read_text()
    )
    assert watched == f"{data_dir}/notices/queue"


def test_an_empty_tree_is_laid_out(tree):
    """Program, settings, units and site have their places, and settings are not public."""
    assert "is laid out" in tree.install()
    files = tree.files()
    (release,) = (tree.root / "opt/verifyd/releases").iterdir()
    assert release.name.startswith("1.2.3-")
    assert files["opt/verifyd/current"][0].decode() == f"releases/{release.name}"
    assert files["usr/local/bin/verifyd"][0] == b"/opt/verifyd/current/verifyd.sh"
    assert files["etc/verifyd/verifyd.env"][1] == 0o640
    assert (tree.root / "etc/verifyd/tls").stat().st_mode & 0o027 == 0
    assert (tree.root / "etc/verifyd").stat().st_mode & 0o007 == 0
    assert (tree.root / "etc/verifyd/nginx").stat().st_mode & 0o077 == 0
    for site in DEPLOY.glob("nginx/*"):
        assert (release / "nginx" / site.name).read_text() == site.read_text()
    for unit in UNITS:
        assert files[f"etc/systemd/system/{unit.name}"][0].endswith(unit.name.encode())
    for name in MAN_PAGES:
        assert (
            files[f"usr/local/share/man/{name}"][0].decode() == f"/opt/verifyd/current/man/{name}"
        )
        assert (release / "man" / name).read_text() == (DEPLOY / "man" / name).read_text()
    for path in ("verifyd", "verifyd.sh", "install.sh"):
        assert (release / path).stat().st_mode & 0o111 == 0o111
    assert (release / "fetch-open-data.sh").stat().st_mode & 0o111 == 0o111
    for page in DEPLOY.rglob("*.md"):
        assert (release / page.relative_to(DEPLOY)).read_text() == page.read_text()


def test_the_table_of_units_is_complete():
    """The table has exactly the units that are shipped."""
    told = []
    for names in (quoted(row[0]) for row in table("Unit")):
        stem = names[0].partition(".")[0]
        told += [stem + name if name.startswith(".") else name for name in names]
    assert sorted(told) == [unit.name for unit in UNITS]


def test_the_table_of_files_has_what_is_laid_out(tree):
    """Each path of the table is there, but for those that the operator, nginx or a start makes."""
    tree.install()
    (rows,) = re.findall(r"\| Where \| What \|\n\|[-|]+\|\n((?:\|.*\n)+)", FILES)
    told = re.findall(r"`(/[^`]+)`", "".join(re.findall(r"(?m)^\|([^|]+)\|", rows)))
    assert {name for name in told if not (tree.root / name[1:]).exists()} == {
        "/etc/verifyd/release-signers",
        "/etc/credstore/verifyd.database_url",
        "/etc/nginx/verifyd.passwords",
        "/run/verifyd/",
        "/run/verifyd.sock",
        "/var/log/nginx/verifyd.log",
    }


@pytest.mark.parametrize("is_in_source", [True, False])
def test_no_page_has_a_dead_link(tree, is_in_source):
    """The pages of an installed host link only to what is installed with them."""
    if is_in_source:
        copy_above(tree.deploy.parent)
    tree.install()
    release = (tree.root / "opt/verifyd/current").resolve()
    assert [(release / name).exists() for name in ABOVE] == [is_in_source] * len(ABOVE)
    pages = [page.relative_to(DEPLOY) for page in DEPLOY.rglob("*.md")]
    for page in [*pages, *(map(Path, ABOVE) if is_in_source else ())]:
        installed = release / page
        links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", installed.read_text())
        dead = [link for link in links if not (installed.parent / link).exists()]
        assert (page.name, dead) == (page.name, [])


@pytest.mark.system_long
def test_a_release_lays_itself_out_again(tree):
    """The installer of an installed release makes the same release, with all its pages."""
    copy_above(tree.deploy.parent)
    tree.install()
    before = tree.files()
    tree.deploy = (tree.root / "opt/verifyd/current").resolve()
    tree.binary = tree.deploy / "verifyd"
    tree.install()
    assert tree.files() == before


def test_the_installer_names_the_commit(tree):
    """Builds between two releases have the same version, so the commit tells them apart."""
    lines = '  "version": "1.2.3",\n  "commit": "0123456789abcdef0123",\n'
    tree.binary.write_text(f"#!/bin/sh\ncat <<END\n{lines}END\n")
    assert "1.2.3 (0123456789ab) is laid out in" in tree.install()


@pytest.mark.parametrize(
    ("name", "unit", "is_refused"),
    [
        ("VERIFYD_DATABASE_URL", {}, True),
        ("VERIFYD_DATABASE_URL", {"INVOCATION_ID": "0123"}, False),
        ("VERIFYD_WORKERS", {}, False),
    ],
)
def test_the_wrapper_ignores_no_variable(tmp_path, name, unit, is_refused):
    """A variable that the settings file would override is refused; another one is used.

    In a unit all settings are in the environment, and the file is read again.
    """
    settings = tmp_path / "verifyd.env"
    settings.write_text("VERIFYD_DATABASE_URL=sqlite:////live.db\n")
    wrapper = tmp_path / "verifyd.sh"
    text = (DEPLOY / "verifyd.sh").read_text()
    wrapper.write_text(text.replace("/etc/verifyd/verifyd.env", str(settings)))
    for script, line in (("verifyd", "env"), ("id", "echo verifyd")):
        (tmp_path / script).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / script).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", name: "other"} | unit
    ended = subprocess.run(
        ["sh", wrapper, "restore"], env=environment, capture_output=True, text=True, check=False
    )
    if is_refused:
        assert (ended.returncode, ended.stdout) == (1, "")
        assert f"{name} is set in the environment and in {settings}" in ended.stderr
        assert f"sudo -u verifyd env {name}=..." in ended.stderr
    else:
        assert ("VERIFYD_WORKERS=other\n" in ended.stdout) == (name == "VERIFYD_WORKERS")
        assert "VERIFYD_DATABASE_URL=sqlite:////live.db\n" in ended.stdout


def test_installing_twice_changes_nothing(tree):
    """Files, modes and links stay the same."""
    tree.install()
    before = tree.files()
    tree.install()
    assert tree.files() == before


@pytest.mark.system_long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_tree_that_had_no_users_is_given_to_the_user(tree):
    """Directories of root become the service's; those of other users stay as they are."""
    assert "has no users yet" in tree.install()
    data = tree.root / "var/lib/verifyd"
    os.chown(data / "drop", 4321, 4321)
    (tree.root / "etc/passwd").write_text("verifyd:x:1234:1235::/:/bin/false\n")
    assert "no users" not in tree.install()
    owners = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in data.iterdir()}
    assert owners == {"backups": (1234, 1235), "drop": (4321, 4321)}
    settings = tree.root / "etc/verifyd"
    for path in (settings, settings / "verifyd.env", settings / "imports"):
        assert (path.stat().st_uid, path.stat().st_gid) == (0, 1235)


@pytest.mark.system_long
def test_edited_files_are_never_overwritten(tree):
    """A later release saves its version alongside and says so, once."""
    tree.install()
    settings = tree.root / "etc/verifyd/verifyd.env"
    settings.write_text("VERIFYD_WORKERS=3\n")
    assert ".new" not in tree.install()
    tree.change("verifyd.env.example")
    assert "verifyd.env was edited, so it stays as it is" in tree.install()
    assert settings.read_text() == "VERIFYD_WORKERS=3\n"
    new = settings.with_name("verifyd.env.new")
    assert new.read_bytes() == (tree.deploy / "verifyd.env.example").read_bytes()
    new.unlink()
    tree.install()
    assert not new.exists()


def test_unedited_files_are_replaced(tree):
    """An unedited site is replaced by the new one, and that is reported."""
    tree.install()
    tree.change("nginx/verifyd.conf")
    site = tree.root / "etc/nginx/sites-available/verifyd.conf"
    assert f"{site} is now the version of this release" in tree.install()
    assert str(site) not in tree.install()
    assert site.read_bytes() == (tree.deploy / "nginx/verifyd.conf").read_bytes()
    assert not site.with_name("verifyd.conf.new").exists()


class TestHttp2:
    """The site has the form of http2 that nginx on this host knows without a warning."""

    SITE = "etc/nginx/sites-available/verifyd.conf"

    def nginx(self, tree: Tree, version: str) -> None:
        """Let the host have an nginx of a version."""
        program = tree.root / "usr/sbin/nginx"
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\necho 'nginx version: nginx/{version} (Debian)' >&2\n")
        program.chmod(0o755)

    def uninstall(self, tree: Tree) -> str:
        """Remove the installation, and return what that prints."""
        words = [str(tree.deploy / "install.sh"), "--uninstall", "--prefix", str(tree.root)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def lines(self, tree: Tree) -> list[str]:
        """Return the lines of the site about http2 and port 443."""
        found = (tree.root / self.SITE).read_text().splitlines()
        return [each.strip() for each in found if re.match(r"    (listen .*443|http2 )", each)]

    OLD = (
        "listen 443 ssl http2 default_server sndbuf=32k;",
        "listen [::]:443 ssl http2 default_server sndbuf=32k;",
    )
    NEW = ("http2 on;", *(line.replace(" http2", "") for line in OLD))

    @pytest.mark.parametrize(
        ("version", "is_new"),
        [("1.22.1", False), ("1.25.0", False), ("1.25.1", True), ("1.26.3", True), ("x", False)],
    )
    def test_it_depends_on_the_version(self, tree, version, is_new):
        """Nothing else of the site changes, and an installer that runs again says nothing of it."""
        self.nginx(tree, version)
        tree.install()
        found = self.lines(tree)
        assert [line for line in found if line in (*self.OLD, *self.NEW)] == list(
            self.NEW if is_new else self.OLD
        )
        assert "verifyd.conf" not in tree.install()

    def test_an_upgrade_of_nginx_is_no_edit(self, tree):
        """The next installation adapts the site, and its removal finds it unedited."""
        tree.install()
        self.nginx(tree, "1.26.3")
        assert "verifyd.conf is now the version of this release" in tree.install()
        assert set(self.NEW) <= set(self.lines(tree))
        tree.change("nginx/verifyd.conf")
        assert "verifyd.conf is now the version of this release" in tree.install()
        assert "edited" not in self.uninstall(tree)
        assert not (tree.root / self.SITE).exists()

    def test_an_edited_site_stays(self, tree):
        """Its new version is beside it, in the form that this nginx knows."""
        self.nginx(tree, "1.26.3")
        tree.install()
        with (tree.root / self.SITE).open("a") as site:
            site.write("# mine\n")
        tree.change("nginx/verifyd.conf")
        assert "verifyd.conf was edited, so it stays" in tree.install()
        assert "http2 on;" in (tree.root / f"{self.SITE}.new").read_text()
        assert "was edited, so it stays" in self.uninstall(tree)


class TestTimeZone:
    """The first settings file has the zone of the host, and keeps it."""

    @pytest.fixture
    def tree(self, tree):
        """A tree with the program itself, and an etc/ for the zone."""
        program = f"cd {ROOT} && exec {sys.executable} -m app"
        tree.binary.write_text(f'#!/bin/sh\n{program} "$@"\n')
        (tree.root / "etc").mkdir()
        return tree

    @staticmethod
    def zone(tree) -> list[str]:
        """Return the lines of the settings file about the zone."""
        settings = (tree.root / "etc/verifyd/verifyd.env").read_text()
        return re.findall("(?m)^#?VERIFYD_TIMEZONE=.*$", settings)

    @pytest.mark.parametrize(
        ("target", "zone"),
        [
            ("/usr/share/zoneinfo/Europe/Amsterdam", "Europe/Amsterdam"),
            ("../usr/share/zoneinfo/America/Argentina/Buenos_Aires", None),
            ("/etc/zoneinfo/Etc/GMT+5", "Etc/GMT+5"),
        ],
    )
    def test_a_link_names_it(self, tree, target, zone):
        """Also a relative one, and one that leads nowhere; the installer says what it took."""
        (tree.root / "etc/localtime").symlink_to(target)
        zone = zone or target.partition("zoneinfo/")[2]
        told = f"VERIFYD_TIMEZONE is {zone}, as in {tree.root}/etc/localtime; if your days begin"
        assert told in tree.install()
        assert self.zone(tree) == [f"VERIFYD_TIMEZONE={zone}"]

    @pytest.mark.parametrize(
        ("named", "zone"),
        [
            ("Europe/Amsterdam", "Europe/Amsterdam"),
            ("Asia/Tokyo", None),
            ("", None),
            ("../../../etc/localtime", None),
            (None, None),
        ],
    )
    def test_a_copy_needs_its_name_beside_it(self, tree, named, zone):
        """`/etc/timezone` counts only if it has the same rules."""
        for name in ("Europe/Amsterdam", "Asia/Tokyo"):
            file = tree.root / "usr/share/zoneinfo" / name
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(time_zones.PACKAGE.directory, name), file)
        shutil.copy(tree.root / "usr/share/zoneinfo/Europe/Amsterdam", tree.root / "etc/localtime")
        if named is not None:
            (tree.root / "etc/timezone").write_text(f"{named}\n")
        told = tree.install()
        if zone:
            assert f"VERIFYD_TIMEZONE is {zone}, as in" in told
            assert self.zone(tree) == [f"VERIFYD_TIMEZONE={zone}"]
        else:
            assert "VERIFYD_TIMEZONE is UTC, because" in told
            assert "etc/localtime does not name a time zone;" in told
            assert self.zone(tree) == ["#VERIFYD_TIMEZONE=UTC"]

    @pytest.mark.parametrize(
        ("target", "told"),
        [
            (None, "because {} does not exist;"),
            ("/usr/share/zoneinfo/Etc/UTC", "as in {};"),
            ("/usr/share/zoneinfo/Mars/Base", "because {} names Mars/Base, which verifyd does not"),
            ("/usr/share/zoneinfo/a|b\nc", "because {} does not name a time zone;"),
            ("/data/localtime", "because {} does not name a time zone;"),
        ],
    )
    def test_otherwise_it_is_utc(self, tree, target, told):
        """The installer says why, and leaves the default."""
        localtime = tree.root / "etc/localtime"
        if target:
            localtime.symlink_to(target)
        assert f"VERIFYD_TIMEZONE is UTC, {told.format(localtime)}" in tree.install()
        assert self.zone(tree) == ["#VERIFYD_TIMEZONE=UTC"]

    def test_an_upgrade_never_changes_it(self, tree):
        """Neither if the host moves nor in a new version of the file, which is no edited one."""
        localtime = tree.root / "etc/localtime"
        localtime.symlink_to("/usr/share/zoneinfo/Europe/Amsterdam")
        tree.install()
        localtime.unlink()
        localtime.symlink_to("/usr/share/zoneinfo/Asia/Tokyo")
        before = tree.files()
        assert "VERIFYD_TIMEZONE" not in tree.install()
        assert tree.files() == before
        tree.change("verifyd.env.example")
        told = tree.install()
        settings = tree.root / "etc/verifyd/verifyd.env"
        assert f"{settings} is now the version of this release" in told
        assert "VERIFYD_TIMEZONE" not in told
        assert self.zone(tree) == ["VERIFYD_TIMEZONE=Europe/Amsterdam"]
        assert settings.read_text().endswith("# of a later release\n")
        assert settings.stat().st_mode & 0o777 == 0o640

    def test_a_file_from_before_stays_in_utc(self, tree):
        """Its answers are about another day all at once otherwise."""
        tree.install()
        (tree.root / "etc/localtime").symlink_to("/usr/share/zoneinfo/Europe/Amsterdam")
        tree.change("verifyd.env.example")
        assert "VERIFYD_TIMEZONE" not in tree.install()
        assert self.zone(tree) == ["#VERIFYD_TIMEZONE=UTC"]


def test_a_binary_that_was_named_is_that_one_or_none(tree):
    """A binary next to the script does not replace the named one."""
    tree.binary.rename(tree.deploy / "verifyd")
    ended = tree.run()
    assert (ended.returncode, tree.files()) == (1, {})
    assert f"{tree.binary} does not exist" in ended.stderr


def test_a_binary_without_its_mode_is_refused(tree):
    """Copying over some media loses the mode."""
    tree.binary.chmod(0o644)
    ended = tree.run()
    assert (ended.returncode, tree.files()) == (1, {})
    assert f"chmod +x {tree.binary}" in ended.stderr


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 1\n", "no program"])
def test_a_binary_that_does_not_run_is_refused(tree, text):
    """The refusal says what the binary needs, and nothing is changed."""
    tree.binary.write_text(text)
    ended = tree.run()
    assert ended.returncode == 1
    assert "does not run on this host: it needs glibc 2.34 or newer" in ended.stderr
    assert tree.files() == {}


def test_the_refusal_of_a_binary_names_the_glibc_that_it_needs(tree):
    """Which glibc a binary needs depends on the system that built it, and is in its SBOM."""
    tree.binary.write_text("no program")
    properties = [{"name": "verifyd:glibc", "value": "2.41"}]
    sbom = json.dumps({"properties": properties}, indent=2)
    tree.binary.with_name("verifyd.cdx.json").write_text(sbom)
    assert "needs glibc 2.41 or newer" in tree.run().stderr


def test_two_at_once_are_one_after_the_other(tree):
    """The second run is refused and changes nothing."""
    tree.install()
    before = tree.files()
    tree.change("verifyd.env.example")
    with (tree.root / "opt/verifyd/.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        ended = tree.run()
    assert (ended.returncode, tree.files()) == (1, before)
    assert "another installation is running" in ended.stderr


@pytest.mark.system_long
def test_one_that_was_killed_is_run_again(tree):
    """The next run completes the installation as if the first had not been killed."""
    tree.install()
    before = tree.files()
    (release,) = (tree.root / "opt/verifyd/releases").iterdir()
    release.rename(release.with_name(f"{release.name}.new"))
    (release.with_name(f"{release.name}.new") / "verifyd").unlink()
    tree.install()
    assert tree.files() == before


@pytest.mark.system_long
def test_units_that_a_release_does_not_have_go(tree):
    """After going back no timer starts a program that the release lacks."""
    tree.install()
    before = tree.files()
    units = tree.root / "etc/systemd/system"
    shipped = "/opt/verifyd/current/systemd"
    (units / "timers.target.wants").mkdir()
    (units / "verifyd-later.service.d").mkdir()
    for link, target in {
        "verifyd-later.service": f"{shipped}/verifyd-later.service",
        "verifyd-later.timer": f"{shipped}/verifyd-later.timer",
        "timers.target.wants/verifyd-later.timer": f"{shipped}/verifyd-later.timer",
        "verifyd-later.service.d/hardening.conf": f"{shipped}/hardening.conf",
    }.items():
        (units / link).symlink_to(target)
    own = units / "verifyd-own.timer"
    own.write_text("the operator's")
    tree.install()
    assert tree.files() == before | {str(own.relative_to(tree.root)): (own.read_bytes(), 0o644)}
    assert not (units / "verifyd-later.service.d").exists()


def test_man_pages_that_a_release_does_not_have_go(tree):
    """After going back no link leads nowhere. Pages of others stay."""
    tree.install()
    before = tree.files()
    pages = tree.root / "usr/local/share/man/man1"
    (pages / "verifyd-later.1").symlink_to("/opt/verifyd/current/man/man1/verifyd-later.1")
    own = pages / "verifyd-own.1"
    own.write_text("the operator's")
    other = pages / "verifyd-other.1"
    other.symlink_to("/opt/other/verifyd-other.1")
    tree.install()
    added = {own: (own.read_bytes(), 0o644), other: (b"/opt/other/verifyd-other.1", 0o777)}
    assert tree.files() == before | {
        str(path.relative_to(tree.root)): told for path, told in added.items()
    }


class Release(Tree):
    """A tree, and beside it a release as its archive is unpacked."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.binary = self.binary.rename(self.deploy / "verifyd")
        for name in ABOVE:
            text = (ROOT / name).read_text().replace("](deploy/", "](")
            (self.deploy / name).write_text(text)
        (self.deploy / "verifyd.cdx.json").write_text("{}")
        (self.deploy / "verifyd.licenses.txt").write_text("MIT")
        self.sums = self.deploy / "SHA256SUMS"
        self.signature = self.deploy / "SHA256SUMS.sig"
        self.signers = self.root / "etc/verifyd/release-signers"
        paths = [path for path in self.deploy.rglob("*") if path.is_file()]
        words = ["sha256sum", *(str(path.relative_to(self.deploy)) for path in paths)]
        summed = subprocess.run(words, cwd=self.deploy, capture_output=True, check=True)
        self.sums.write_bytes(summed.stdout)

    def make_key(self, name: str) -> Path:
        """Make a key pair, and return the path of the private key."""
        key = self.root.with_name(name)
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        return key

    def sign(self, key: Path) -> None:
        """Sign the checksums as `make release` does."""
        self.signature.unlink(missing_ok=True)
        words = ["ssh-keygen", "-Y", "sign", "-q", "-n", "verifyd-release", "-f"]
        subprocess.run([*words, key, self.sums], check=True)

    def assert_refused(self, told: str, *words: object) -> None:
        """Fail unless the installer refuses the release with this sentence, and changes nothing."""
        before = self.files()
        ended = self.run(*words)
        assert (ended.returncode, ended.stdout) == (1, "")
        assert told in ended.stderr
        assert self.files() == before


@needs("ssh-keygen", "openssh-client")
class TestCheckingTheRelease:
    @pytest.fixture
    def release(self, tmp_path) -> Release:
        """A release that is not signed."""
        return Release(tmp_path)

    @pytest.fixture
    def signed(self, release) -> Release:
        """A signed release, and a host that asks for its key."""
        release.sign(release.make_key("key"))
        release.signers.parent.mkdir(parents=True)
        release.signers.write_text(f"verifyd {(release.root.with_name('key.pub')).read_text()}")
        return release

    def test_without_a_key_an_unsigned_release_is_installed(self, release):
        """The installer warns, and the checksums are installed with what they are of."""
        ended = release.run()
        assert (ended.returncode, ended.stderr) == (0, UNSIGNED)
        installed = release.root / "opt/verifyd/current"
        for name in ("SHA256SUMS", "verifyd.cdx.json", "verifyd.licenses.txt"):
            path = installed / name
            assert path.read_bytes() == (release.deploy / name).read_bytes()
            assert path.stat().st_mode & 0o777 == 0o644
        words = ["sha256sum", "--check", "--quiet", "--ignore-missing", "SHA256SUMS"]
        subprocess.run(words, cwd=installed, check=True)

    def test_without_a_key_a_signature_is_not_checked(self, release):
        """The installer says so, because the operator may believe the opposite."""
        release.signature.write_text("none")
        ended = release.run()
        assert ended.returncode == 0
        assert "the signature of this release was not checked" in ended.stderr

    @pytest.mark.parametrize(
        "name", ["verifyd", "verifyd.licenses.txt", "CHANGELOG.md", "systemd/verifyd.service"]
    )
    def test_a_changed_byte_is_refused(self, release, name):
        """Whatever is installed is compared, before the binary is run."""
        path = release.deploy / name
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
        told = f"SHA256SUMS does not have the checksum of {name}; do not install this release"
        release.assert_refused(told)

    def test_a_file_without_checksum_is_refused(self, release):
        """What is installed must be listed, or anything could be added to a release."""
        lines = release.sums.read_text().splitlines(keepends=True)
        release.sums.write_text("".join(line for line in lines if "  uninstall.sh" not in line))
        (release.deploy / "man/man1/added.1").touch()
        release.assert_refused(
            "SHA256SUMS does not have the checksum of uninstall.sh man/man1/added.1;"
        )
        release.sums.write_text("")
        release.assert_refused("verifyd.licenses.txt; do not install")

    @pytest.mark.parametrize("name", ["verifyd.cdx.json", "man/man1/verifyd-import.1"])
    def test_half_a_release_is_refused(self, release, name):
        """A missing file is named."""
        (release.deploy / name).unlink()
        release.assert_refused(f"{name} is missing; unpack the archive again")

    def test_another_binary_is_refused(self, release, tmp_path):
        """The checksums of a release are of its own binary."""
        other = shutil.copy(release.binary, tmp_path / "other")
        release.assert_refused("without --binary", "--binary", other)

    def test_a_key_is_stored_and_asked_for_from_then_on(self, release):
        """A release that the key has signed is installed without a warning."""
        key = release.make_key("key")
        release.sign(key)
        ended = release.run("--trust-key", f"{key}.pub")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert release.signers.read_text() == f"verifyd {Path(f'{key}.pub').read_text()}"
        assert release.signers.stat().st_mode & 0o777 == 0o644
        release.signature.unlink()
        release.assert_refused("SHA256SUMS is not signed")

    def test_changed_checksums_are_refused(self, signed):
        """A signature is of one list of checksums."""
        signed.sums.write_text(signed.sums.read_text().replace("  verifyd\n", "  verifyd2\n"))
        signed.assert_refused("SHA256SUMS was changed, or was signed by a key that is not in")

    def test_another_key_is_refused(self, signed):
        """Anybody can make a key."""
        signed.sign(signed.make_key("other"))
        signed.assert_refused("SHA256SUMS was changed, or was signed by a key that is not in")

    def test_a_missing_signature_is_refused(self, signed):
        """To leave something out is no way around the key."""
        signed.signature.unlink()
        signed.assert_refused("SHA256SUMS is not signed, and releases must be signed by a key in")
        signed.sums.unlink()
        signed.assert_refused("has no SHA256SUMS, and releases must be signed by a key in")

    def test_a_key_is_not_stored_if_it_refuses_the_release(self, release):
        """A wrong file, or the key of somebody else, leaves no trace."""
        key, other = release.make_key("key"), release.make_key("other")
        release.sign(key)
        release.assert_refused("signed by a key that is not in", "--trust-key", f"{other}.pub")
        release.assert_refused("has no public key of ssh-keygen", "--trust-key", other)
        release.assert_refused("does not exist", "--trust-key", "/nonexistent")

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount directories")
    def test_a_key_is_not_stored_if_the_settings_are_refused(self, release):
        """An upgrade that changes nothing must not refuse all releases but this one from now on.

        The installer checks settings only on a real host, which a namespace of mounts stands for.
        """
        key = release.make_key("key")
        release.sign(key)
        script = """
            for directory in /opt /usr/local/bin /var/lib /run; do
                mkdir -p "$1$directory" && mount --bind "$1$directory" $directory
            done
            cp -a /etc "$1" && mount --bind "$1/etc" /etc
            "$2" && echo "no setting" >>/etc/verifyd/verifyd.env && ! "$2" --trust-key "$3"
        """
        words = ["unshare", "--mount", "sh", "-euc", script, "sh", release.root]
        words += [release.deploy / "install.sh", f"{key}.pub"]
        ended = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)
        assert (ended.returncode, "nothing was changed" in ended.stderr) == (0, True)
        assert (release.root / "etc/verifyd/verifyd.env").exists()
        assert not release.signers.exists()

    @pytest.mark.system_long
    def test_a_key_is_replaced(self, signed):
        """A new key is trusted by the next release that it has signed."""
        key = signed.make_key("next")
        signed.sign(key)
        signed.install("--trust-key", f"{key}.pub")
        signed.install()

    @pytest.mark.system_long
    def test_a_key_without_ssh_keygen_is_refused(self, signed, monkeypatch, tmp_path):
        """The refusal names the package to install."""
        tools = tmp_path / "tools"
        tools.mkdir()
        for tool in Path("/usr/bin").iterdir():
            if tool.name != "ssh-keygen":
                (tools / tool.name).symlink_to(tool)
        monkeypatch.setenv("PATH", str(tools))
        signed.assert_refused("install openssh-client")

    def test_going_back_checks_nothing(self, signed):
        """A release that was installed is gone back to, even if its signature is lost."""
        signed.install()
        installed = (signed.root / "opt/verifyd/current").resolve()
        (installed / "SHA256SUMS.sig").write_text("none")
        signed.deploy = installed
        assert "is laid out" in signed.install()


class TestUninstalling:
    def uninstall(self, tree, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the installer of the installed release, and return how it ended."""
        script = tree.root / "opt/verifyd/current/install.sh"
        command = [script if script.exists() else tree.deploy / "install.sh", "--uninstall"]
        return subprocess.run(
            [*map(str, command), "--prefix", str(tree.root), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    @pytest.fixture
    def installed(self, tree) -> Tree:
        """A tree with an enabled site and data of the service."""
        tree.install()
        for name, text in {
            "etc/nginx/sites-enabled/other.conf": "other",
            "etc/nginx/verifyd.passwords": "ann:hash",
            "etc/systemd/system/other.service": "other",
            "etc/credstore/verifyd.database_url": "postgresql:///verifyd",
            "etc/credstore/verifyd.notify_secret": "whsec_",
            "etc/credstore/verifyd.console_proxy_secret": "secret",
            "etc/verifyd/nginx/server-own.conf": "own",
            "etc/verifyd/tls/privkey.pem": "key",
            "var/lib/verifyd/verifyd.db": "data",
            "var/lib/verifyd/backups/one/verifyd.db": "data",
            "var/log/nginx/verifyd.log": "log",
            "var/lib/systemd/timers/stamp-verifyd-backup.timer": "",
        }.items():
            path = tree.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        enabled = tree.root / "etc/nginx/sites-enabled/verifyd.conf"
        enabled.symlink_to("../sites-available/verifyd.conf")
        wants = tree.root / "etc/systemd/system/timers.target.wants"
        wants.mkdir()
        (wants / "verifyd-backup.timer").symlink_to("/etc/systemd/system/verifyd-backup.timer")
        return tree

    def test_data_and_settings_stay(self, installed):
        """Everything else that was installed is removed; repeating changes nothing."""
        ended = self.uninstall(installed)
        assert (ended.returncode, ended.stderr) == (0, "")
        left = installed.files()
        assert set(left) == {
            "etc/credstore/verifyd.database_url",
            "etc/credstore/verifyd.console_proxy_secret",
            "etc/credstore/verifyd.notify_secret",
            "etc/nginx/sites-enabled/other.conf",
            "etc/nginx/verifyd.passwords",
            "etc/systemd/system/other.service",
            "etc/verifyd/nginx/server-own.conf",
            "etc/verifyd/tls/privkey.pem",
            "etc/verifyd/verifyd.env",
            "var/lib/verifyd/backups/one/verifyd.db",
            "var/lib/verifyd/verifyd.db",
            "var/log/nginx/verifyd.log",
        }
        assert not list((installed.root / "etc/systemd/system").glob("verifyd*"))
        assert self.uninstall(installed).returncode == 0
        assert installed.files() == left

    def test_installing_again_takes_them_up(self, installed):
        """The tree is as before, with the edited settings."""
        (installed.root / "etc/verifyd/verifyd.env").write_text("VERIFYD_WORKERS=3\n")
        before = installed.files()
        self.uninstall(installed)
        installed.install()
        by_the_operator = {
            "etc/nginx/sites-enabled/verifyd.conf",
            "etc/systemd/system/timers.target.wants/verifyd-backup.timer",
            "var/lib/systemd/timers/stamp-verifyd-backup.timer",
        }
        after = installed.files()
        assert after.pop("etc/verifyd/verifyd.env.new")
        assert set(before) - set(after) == by_the_operator
        assert {name: before[name] for name in after} == after

    @pytest.mark.system_long
    def test_edited_files_stay(self, installed):
        """The site and the overrides of units are settings; only our links are removed."""
        site = installed.root / "etc/nginx/sites-available/verifyd.conf"
        site.write_text("edited")
        override = installed.root / "etc/systemd/system/verifyd.service.d/override.conf"
        override.write_text("[Service]")
        assert f"{site} was edited, so it stays" in self.uninstall(installed).stdout
        assert site.exists()
        assert [path.name for path in override.parent.iterdir()] == ["override.conf"]

    @pytest.mark.system_long
    def test_purge_leaves_nothing(self, installed):
        """Data, settings, logs and overrides are removed, too, now or after an uninstallation."""
        override = installed.root / "etc/systemd/system/verifyd.service.d/override.conf"
        override.write_text("[Service]")
        self.uninstall(installed)
        assert self.uninstall(installed, "--purge", "--yes").returncode == 0
        assert set(installed.files()) == {
            "etc/nginx/sites-enabled/other.conf",
            "etc/systemd/system/other.service",
        }
        assert not [path for path in installed.root.rglob("*") if "verifyd" in path.name]
        assert self.uninstall(installed, "--purge", "--yes").returncode == 0

    def test_purge_must_be_confirmed(self, installed):
        """Without a terminal a purge needs `--yes`; otherwise nothing changes at all."""
        before = installed.files()
        ended = self.uninstall(installed, "--purge")
        assert (ended.returncode, installed.files()) == (1, before)
        assert "confirm --purge with --yes" in ended.stderr

    def test_half_an_installation_is_removed(self, tree):
        """Missing files are skipped, and in an empty tree there is nothing to do."""
        assert self.uninstall(tree).returncode == 0
        assert tree.files() == {}
        tree.install()
        (tree.root / "opt/verifyd/current").unlink()
        (tree.root / "etc/systemd/system/verifyd.socket").unlink()
        shutil.rmtree(tree.root / "etc/systemd/system/verifyd.service.d")
        assert self.uninstall(tree, "--purge", "--yes").returncode == 0
        assert not [path for path in tree.root.rglob("*") if "verifyd" in path.name]

    def test_it_waits_for_no_installation(self, installed):
        """While the installer runs nothing is removed."""
        before = installed.files()
        with (installed.root / "opt/verifyd/.lock").open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            ended = self.uninstall(installed)
        assert (ended.returncode, installed.files()) == (1, before)

    @pytest.mark.parametrize("words", [["--force"], ["--binary", "x"], ["--no-backup"]])
    def test_other_words_are_a_usage_error(self, installed, words):
        """Nothing is removed by a mistyped command."""
        before = installed.files()
        ended = self.uninstall(installed, *words)
        assert (ended.returncode, installed.files()) == (2, before)
        assert "usage: install.sh --uninstall" in ended.stderr


@pytest.mark.parametrize("words", [["--force"], ["--prefix"], ["--binary", ""]])
def test_words_it_does_not_know_are_a_usage_error(tree, words):
    """The installer exits with 2 and prints the usage, also if a value is missing."""
    ended = tree.run(*words)
    assert (ended.returncode, tree.files()) == (2, {})
    assert "usage: install.sh" in ended.stderr
