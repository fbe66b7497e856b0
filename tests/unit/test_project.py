"""Promises of the project: reproducible environments, complete installations."""

import re
import tomllib
from configparser import ConfigParser
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.rows import each_row
from tests.system.test_pythons import PYTHONS

ROOT = Path(__file__).parents[2]
CONFIG = ConfigParser(interpolation=None)
CONFIG.read(ROOT / "setup.cfg", encoding="utf-8")


class Pin(NamedTuple):
    """One package of a file of pins."""

    wanted: Requirement
    hashes: int

    @property
    def name(self) -> str:
        return canonicalize_name(self.wanted.name)

    @property
    def applies(self) -> bool:
        """Tell whether this environment should have it."""
        return self.wanted.marker is None or self.wanted.marker.evaluate()


def requirements(section: str, option: str) -> list[Requirement]:
    """Return a list of requirements in setup.cfg."""
    return [Requirement(line) for line in CONFIG[section][option].split("\n") if line]


def group(name: str) -> list[Requirement]:
    """Return those of a group in pyproject.toml that this machine needs."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    wanted = map(Requirement, tomllib.loads(text)["dependency-groups"][name])
    return [each for each in wanted if each.marker is None or each.marker.evaluate()]


def pins(folder: str) -> list[Pin]:
    """Return what a file of pins installs, in its order."""
    text = (ROOT / folder / "requirements.txt").read_text(encoding="utf-8")
    entries = re.split(r"(?m)^(?=\w)", re.sub(r"(?m)^ *#.*\n", "", text))
    return [
        Pin(Requirement(entry.partition("\\\n")[0]), entry.count("--hash=sha256:"))
        for entry in entries
        if entry
    ]


def versions(folder: str) -> set[tuple[str, str]]:
    """Return names and versions of a file of pins, for all machines."""
    return {(pin.name, str(pin.wanted.specifier)) for pin in pins(folder)}


RUN = requirements("options", "install_requires")
POSTGRES = requirements("options.extras_require", "postgres")
NEEDED = {
    "deploy": [*RUN, *POSTGRES, *group("build")],
    "tests": [*RUN, *POSTGRES, *group("build"), *group("dev")],
}
"""What each file of pins is made from, but for the binary, whose tools are not installed here."""


def needed_by(roots: list[Requirement]) -> set[str]:
    """Return the names of all packages that the roots need, including themselves."""
    names: set[str] = set()
    waiting = list(roots)
    while waiting:
        root = waiting.pop()
        names.add(canonicalize_name(root.name))
        for line in distribution(root.name).requires or []:
            further = Requirement(line)
            applies = further.marker is None or any(
                further.marker.evaluate({"extra": extra}) for extra in root.extras | {""}
            )
            if applies and canonicalize_name(further.name) not in names:
                waiting.append(further)
    return names


@pytest.mark.parametrize("folder", ["deploy", "tests", "deploy/binary"])
def test_every_pin_is_one_exact_version_with_hashes(folder):
    """An environment made next year has the files that were tested."""
    for pin in pins(folder):
        assert re.fullmatch(r"==[\w.]+", str(pin.wanted.specifier)), pin
        assert pin.hashes > 0, pin


@pytest.mark.parametrize("folder", NEEDED)
def test_indirect_dependencies_are_pinned_too(folder):
    """Every package that the service or its tests bring along is pinned (`make pins`)."""
    assert needed_by(NEEDED[folder]) <= {pin.name for pin in pins(folder) if pin.applies}


def test_the_service_and_the_binary_are_made_of_what_was_tested():
    """Packages have one version in all files of pins."""
    assert versions("deploy") <= versions("tests")
    assert versions("deploy") <= versions("deploy/binary")
    names = {name for name, _ in versions("tests")}
    assert {each for each in versions("deploy/binary") if each[0] in names} <= versions("tests")


def test_the_tests_run_with_what_is_pinned():
    """The environment of the tests has the pinned version of each package."""
    applying = [pin for pin in pins("tests") if pin.applies]
    assert {pin.name: f"=={distribution(pin.name).version}" for pin in applying} == {
        pin.name: str(pin.wanted.specifier) for pin in applying
    }


@each_row("wanted", RUN + POSTGRES, ids=lambda wanted: wanted.name)
def test_pins_lie_within_the_ranges_that_customers_install(wanted):
    """What is tested is what `pip install verifyd` can choose."""
    (pin,) = [pin for pin in pins("deploy") if pin.name == canonicalize_name(wanted.name)]
    (version,) = pin.wanted.specifier
    assert version.version in wanted.specifier


def test_what_is_compiled_has_wheels_for_arm64():
    """Every compiled package is one that was found to have wheels for arm64 (D108).

    To find out for a version of Python, run `pip download --only-binary :all: --no-deps
    --require-hashes --requirement deploy/requirements.txt --platform manylinux_2_28_aarch64
    --platform manylinux2014_aarch64 --python-version 3.11 --dest wheels`. Each of 3.11 to 3.15 has
    wheels, for glibc 2.28 or newer.
    """
    have_wheels = {"apsw", "falcon", "markupsafe", "msgspec", "psycopg-binary"}
    compiled = {
        name
        for name in needed_by([*RUN, *POSTGRES])
        if "Root-Is-Purelib: false" in (distribution(name).read_text("WHEEL") or "")
    }
    assert compiled == have_wheels


def test_each_promised_version_of_python_is_tested():
    """The versions that setup.cfg names are those of `make test-pythons`, and 3.12."""
    prefix = "Programming Language :: Python :: 3."
    named = {each for each in CONFIG["metadata"]["classifiers"].split("\n") if prefix in each}
    assert named == {f"{prefix.removesuffix('3.')}{version}" for version in [*PYTHONS, "3.12"]}


def test_every_folder_of_modules_is_a_package():
    """A directory without `__init__.py` would be missing from an installation."""
    modules = (ROOT / "app").rglob("*.py")
    others = {"migrations", "client-samples"}
    folders = {path.parent for path in modules if others.isdisjoint(path.parts)}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_every_data_file_is_installed():
    """Every data file that the program reads is listed as package data."""
    globs = CONFIG["options.package_data"]["app"].split()
    listed = {path for glob in globs for path in (ROOT / "app").glob(glob)}
    files = {path for path in (ROOT / "app").rglob("*") if path.is_file()}
    others = {path for path in files if path.suffix in (".py", ".pyc", ".md")}
    assert files - others <= listed
