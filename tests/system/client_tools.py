"""Generators of clients and linters of OpenAPI documents, installed once with pinned versions."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.system.kept import made_once

PROGRAMS = Path(__file__).parent / "clients"
_SECONDS_MAX = 600
_SPRING = [
    *(("org/springframework", f"spring-{name}") for name in ("web", "core", "beans", "jcl")),
    *(("io/micrometer", f"micrometer-{name}") for name in ("observation", "commons")),
    *(
        ("com/fasterxml/jackson/core", f"jackson-{name}")
        for name in ("databind", "core", "annotations")
    ),
]


def ran(
    words: Sequence[object], directory: Path, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with its output as text."""
    return subprocess.run(
        [str(word) for word in words],
        cwd=directory,
        env={**os.environ, "NO_COLOR": "1", **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS_MAX,
        check=False,
    )


def python_tools() -> Path:
    """Return a Python that has the generators of Python clients; skip where they cannot be had."""
    wanted = PROGRAMS / "requirements.txt"

    def install(path: Path) -> None:
        _require_installed(ran([sys.executable, "-m", "venv", path], path))
        pip = [path / "bin" / "python", "-m", "pip", "-q", "--disable-pip-version-check"]
        _require_installed(ran([*pip, "install", "-r", wanted], path))

    made_from = wanted.read_bytes() + sys.version.encode()
    return made_once(_named("python-clients", made_from), install) / "bin" / "python"


def node_tools() -> Path:
    """Return the programs of the packages of npm; skip where they cannot be had."""
    return _node_modules("node-clients", PROGRAMS / "package.json") / ".bin"


def axe_script() -> str:
    """Return axe-core, which finds what is not accessible; skip where it cannot be had."""
    wanted = PROGRAMS.with_name("browser") / "package.json"
    return (_node_modules("node-browser", wanted) / "axe-core" / "axe.min.js").read_text()


def _node_modules(name: str, wanted: Path) -> Path:
    """Return the directory with the packages that a `package.json` wants."""
    missing = [each for each in ("node", "npm") if shutil.which(each) is None]
    if missing:
        pytest.skip(f"{' and '.join(missing)} missing on this machine")

    def install(path: Path) -> None:
        shutil.copy(wanted, path)
        quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts"]
        _require_installed(ran(["npm", "install", *quiet], path))

    return made_once(_named(name, wanted.read_bytes()), install) / "node_modules"


def tools_environment() -> dict[str, str]:
    """Return the environment in which shells find the generators, compilers and Node; or skip.

    openapi-generator is a program in Java, and the Node of the packages of PyPI is newer than that
    of many machines.
    """
    require_jdk()
    return {"PATH": f"{python_tools().parent}:{os.environ['PATH']}"}


def require_jdk() -> None:
    """Skip where no Java Development Kit is installed."""
    if shutil.which("javac") is None:
        pytest.skip("javac missing on this machine")


def dotnet_version() -> str:
    """Return the version of .NET, such as 8.0; skip where its SDK is not installed."""
    if shutil.which("dotnet") is None:
        pytest.skip("dotnet missing on this machine")
    ended = ran(["dotnet", "--version"], Path.cwd())
    if ended.returncode:
        pytest.skip("the SDK of .NET is missing on this machine")
    return ".".join(ended.stdout.split(".")[:2])


def spring_jars() -> str:
    """Return the class path of Spring and Jackson; skip where Maven has not installed them.

    Maven keeps what any of its projects has used.
    """
    require_jdk()
    found: list[str] = []
    for group, name in _SPRING:
        versions = (Path.home() / ".m2" / "repository" / group / name).glob(f"*/{name}-*.jar")
        jars = [each for each in versions if re.fullmatch(r"[\d.]+", each.parent.name)]
        if not jars:
            pytest.skip(f"{name} missing in the repository of Maven on this machine")
        found.append(str(max(jars, key=lambda jar: [*map(int, jar.parent.name.split("."))])))
    return ":".join(found)


def generator_jar() -> Path:
    """Return the archive of openapi-generator, which has Jackson in it."""
    (jar,) = python_tools().parents[1].glob("lib/python*/site-packages/openapi_generator_cli/*.jar")
    return jar


def _named(name: str, made_from: bytes) -> str:
    """Return the name of a directory whose content depends on these bytes."""
    return f"{name}-{hashlib.sha256(made_from).hexdigest()[:12]}"


def _require_installed(ended: subprocess.CompletedProcess[str]) -> None:
    if ended.returncode:
        pytest.skip(f"the packages cannot be installed here: {ended.stderr[-500:]}")
