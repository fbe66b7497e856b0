"""Where the rules of time zones come from, and which zone this host has."""

import os
import shutil
import subprocess
import sys
from datetime import UTC
from pathlib import Path

import pytest

from app import clock
from app.settings import time_zones
from app.settings.time_zones import Rules, differs_from, host_zone, rules_in
from tests.rows import each_row

ROOT = Path(__file__).parents[2]
ZONE = "America/Vancouver"
NEWEST, OLDEST = "2999a", "1999a"
TOLD = """
from datetime import datetime
from app.settings import time_zones
zone = time_zones.require_zone("%s")
print(datetime(2030, 1, 15, tzinfo=zone).utcoffset(), time_zones.rules_of(str(zone)).version)
"""
OURS, UTC_TOO = "-1 day, 17:00:00", "0:00:00"
"""What the package says of Vancouver in winter, and what the files of the stand-in do."""


@pytest.fixture
def system(tmp_path):
    """A stand-in for the system's data, of which each zone is UTC: `system("# version 2025b")`."""

    def made(version: str | None, name: str = "tzdata.zi") -> Path:
        for zone in (ZONE, "posix/Only"):
            file = tmp_path / "zoneinfo" / zone
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(time_zones.PACKAGE.directory, "UTC"), file)
        if version is not None:
            (tmp_path / "zoneinfo" / name).write_text(f"{version}\n# more\n")
        return tmp_path / "zoneinfo"

    return made


def told(path: Path | str, zone: str = ZONE) -> str:
    """Return the offset of a zone in winter and the version, in a process with this path."""
    words = [sys.executable, "-c", TOLD % zone]
    environment = os.environ | {"PYTHONTZPATH": str(path)}
    return subprocess.check_output(words, cwd=ROOT, env=environment, text=True).strip()


class TestWhichCounts:
    def test_the_packages_rules_count_if_they_are_newer(self, system):
        """The zone of an old system would be hours wrong."""
        assert told(system(f"# version {OLDEST}")) == f"{OURS} {time_zones.PACKAGE.version}"

    def test_the_systems_rules_count_if_they_are_newer(self, system):
        """A system that is kept up to date need not wait for a release."""
        assert told(system(f"# version {NEWEST}")) == f"{UTC_TOO} {NEWEST}"
        assert told(system(NEWEST, "+VERSION")) == f"{UTC_TOO} {NEWEST}"

    @pytest.mark.parametrize("version", [None, "# version unknown", "\ufffd", "# redo posix_only"])
    def test_a_system_of_an_unknown_version_does_not_count(self, system, version):
        """Nobody knows how old it is."""
        assert told(system(version)) == f"{OURS} {time_zones.PACKAGE.version}"

    @pytest.mark.parametrize("path", ["", "/nonexistent"])
    def test_a_system_need_not_have_any(self, path):
        """Containers often have none."""
        assert told(path) == f"{OURS} {time_zones.PACKAGE.version}"

    @pytest.mark.parametrize("version", [OLDEST, NEWEST])
    def test_a_name_that_one_lacks_comes_from_the_other(self, system, version):
        """A setting that was right stays right, and its version is shown."""
        path = system(f"# version {version}")
        assert told(path, "posix/Only") == f"{UTC_TOO} {version}"
        assert told(path, "Asia/Kolkata") == f"5:30:00 {time_zones.PACKAGE.version}"

    def test_the_package_says_its_version(self):
        """The pinned one does, so that its age is known."""
        assert time_zones.PACKAGE.version >= "2026f"

    def test_versions_sort_by_age(self):
        """After 2026z comes 2026za."""
        ages = [Rules("", each).age for each in ("", "2025b", "2026f", "2026z", "2026za", "2027a")]
        assert ages == sorted(ages)
        assert len(set(ages)) == len(ages)

    @each_row(("first", "version"), (("# version 2024b-dirty", "2024b"), ("2025bcd", ""), ("", "")))
    def test_other_versions(self, system, first, version):
        """What was built from changed files has the version of its release."""
        assert rules_in(str(system(first))).version == version


class TestDifference:
    @pytest.fixture(autouse=True)
    def _now(self, monkeypatch):
        monkeypatch.setattr(clock, "now", lambda: 1_795_900_000)

    def test_names_of_one_zone_do_not_differ(self):
        """Zones are compared by their rules, not by their names."""
        zone = time_zones.require_zone
        assert differs_from(zone("Europe/London"), zone("GB")) is None
        assert differs_from(zone("Etc/UTC"), UTC) is None

    def test_the_first_hour_that_differs_is_found(self):
        """London and Lisbon agree for ever, London and Reykjavik until summer begins."""
        zone = time_zones.require_zone
        assert differs_from(zone("Europe/London"), zone("Europe/Lisbon")) is None
        found = differs_from(zone("Europe/London"), zone("Atlantic/Reykjavik"))
        assert found is not None
        assert clock.iso_utc(found) == "2027-03-28T01:00:00Z"


class TestHost:
    @pytest.fixture
    def localtime(self, tmp_path):
        return tmp_path / "localtime"

    @pytest.mark.parametrize("is_relative", [False, True])
    def test_a_link_names_the_zone(self, localtime, is_relative):
        """Debian's links are absolute, those of systemd relative."""
        target = f"{time_zones.PACKAGE.directory}/{ZONE}"
        localtime.symlink_to(os.path.relpath(target, localtime.parent) if is_relative else target)
        found = host_zone(str(localtime))
        assert found is not None
        assert str(found) == ZONE
        assert differs_from(found, time_zones.require_zone(ZONE)) is None

    def test_a_copy_has_rules_but_no_name(self, localtime):
        """The path is shown in place of a name."""
        shutil.copy(Path(time_zones.PACKAGE.directory, ZONE), localtime)
        found = host_zone(str(localtime))
        assert found is not None
        assert str(found) == str(localtime)
        assert differs_from(found, time_zones.require_zone(ZONE)) is None

    def test_a_host_without_a_zone_is_in_utc(self, localtime):
        """Also if the link leads nowhere."""
        assert host_zone(str(localtime)) is UTC
        localtime.symlink_to("/nonexistent/zoneinfo/Europe/London")
        assert host_zone(str(localtime)) is UTC

    def test_a_damaged_file_says_nothing(self, localtime):
        """Neither does a directory."""
        localtime.write_text("no zone")
        assert host_zone(str(localtime)) is None
        assert host_zone(str(localtime.parent)) is None
