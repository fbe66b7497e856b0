"""Promises of the project: reproducible environments, complete installations."""

import re
from configparser import ConfigParser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.rows import each_row

ROOT = Path(__file__).parents[2]
CONFIG = ConfigParser(interpolation=None)
CONFIG.read(ROOT / "setup.cfg", encoding="utf-8")


def requirements(section: str, option: str) -> list[Requirement]:
    """Return a list of requirements in setup.cfg, without our own extras."""
    lines = CONFIG[section][option].split("\n")
    return [Requirement(line) for line in lines if line and not line.startswith("verifyd[")]


RUN = requirements("options", "install_requires")
POSTGRES = requirements("options.extras_require", "postgres")
PINNED = requirements("options.extras_require", "pinned")
DEV = requirements("options.extras_require", "dev")


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


@each_row("pin", PINNED + DEV, ids=lambda pin: pin.name)
def test_every_pin_is_one_exact_version(pin):
    """An environment made next year has the versions that were tested."""
    assert re.fullmatch(r"==[\w.]+", str(pin.specifier))


@pytest.mark.parametrize(
    ("roots", "pins"), [(RUN, PINNED), (RUN + POSTGRES + DEV, PINNED + DEV)], ids=["pinned", "dev"]
)
def test_indirect_dependencies_are_pinned_too(roots, pins):
    """Every indirect dependency is pinned, too."""
    current = [root for root in roots if root.marker is None or root.marker.evaluate()]
    assert needed_by(current) <= {canonicalize_name(pin.name) for pin in pins}


@each_row("wanted", RUN + POSTGRES, ids=lambda wanted: wanted.name)
def test_pins_lie_within_the_ranges_that_customers_install(wanted):
    """What is tested is what `pip install verifyd` can choose."""
    pins = {canonicalize_name(pin.name): pin for pin in PINNED + DEV}
    (version,) = pins[canonicalize_name(wanted.name)].specifier
    assert version.version in wanted.specifier


def test_what_is_compiled_has_wheels_for_arm64():
    """Every compiled package is one that was found to have wheels for arm64 (D108).

    To find out for a version of Python, run `pip download --only-binary :all: --no-deps
    --require-hashes --requirement deploy/binary/requirements.txt --platform manylinux_2_28_aarch64
    --platform manylinux2014_aarch64 --python-version 3.11 --dest wheels`. Each of 3.11 to 3.14 has
    wheels, for glibc 2.28 or newer.
    """
    have_wheels = {"apsw", "falcon", "markupsafe", "msgspec", "psycopg-binary"}
    compiled = {
        name
        for name in needed_by([*RUN, *POSTGRES])
        if "Root-Is-Purelib: false" in (distribution(name).read_text("WHEEL") or "")
    }
    assert compiled == have_wheels


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


def test_the_binary_is_made_of_what_was_tested():
    """Each package in the binary has the version that tests ran with, and a hash."""
    text = (ROOT / "deploy" / "binary" / "requirements.txt").read_text(encoding="utf-8")
    entries = [entry for entry in re.split(r"(?m)^(?=\w)", text) if not entry.startswith("#")]
    assert all("--hash=sha256:" in entry for entry in entries if entry)
    binary = dict(re.findall(r"(?m)^([\w.-]+)==([\w.]+)", text))
    tested = {
        canonicalize_name(pin.name): next(iter(pin.specifier)).version for pin in PINNED + DEV
    }
    assert needed_by(RUN + POSTGRES) <= binary.keys()
    assert {name: tested[name] for name in binary.keys() & tested.keys()} == {
        name: version for name, version in binary.items() if name in tested
    }
