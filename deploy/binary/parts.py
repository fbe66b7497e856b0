"""Which packages and libraries the files in the binary belong to, and under which licences."""

import decimal
import json
import platform
import pyexpat
import re
import subprocess
import sysconfig
from collections.abc import Iterable, Iterator
from functools import partial
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import NamedTuple

import apsw
import psycopg.pq
from packageurl import PackageURL
from packaging.utils import canonicalize_name

_LICENCE_FILES = re.compile(
    r"[^/]+\.dist-info/(licenses/)*(LICEN[CS]E|COPYING|NOTICE|AUTHORS)[^/]*"
)
# What the metadata of these packages does not say as an SPDX expression; their texts do.
_LICENCES = {
    "apsw": "Zlib",
    "jinja2": "BSD-3-Clause",
    "peewee": "MIT",
    "pyinstaller": "GPL-2.0-or-later WITH Bootloader-exception",
}
# Libraries that tell their version: beginning of the file's name, project, licence, pattern.
_TELLING = (
    ("libcrypto", "openssl", "Apache-2.0", rb"OpenSSL (\d+\.\d+\.\d+)"),
    ("libkrb5-", "krb5", "MIT", rb"krb5-(\d+\.\d+(?:\.\d+)?)-final"),
)
# Vendor and product by which vulnerability databases name what is compiled from C.
_CPE_NAMES = {
    "expat": "libexpat_project:libexpat",
    "krb5": "mit:kerberos_5",
    "openssl": "openssl:openssl",
    "postgresql": "postgresql:postgresql",
    "python": "python:python",
    "sqlite": "sqlite:sqlite",
}


class Part(NamedTuple):
    """A package or library in the binary."""

    name: str
    version: str | None
    purl: PackageURL
    licence: str | None = None
    texts: tuple[Path, ...] = ()
    """Files that hold the licence."""
    file: Path | None = None
    """The one file that the part is, as it was before it came into the binary."""
    within: str | None = None
    """Name of the part that brings it along."""
    cpe: str | None = None
    note: str | None = None


def parts_of_binary(root: Path) -> list[Part]:
    """Return all parts, by name.

    Args:
        root: the repository, with the list of files in build/contents.json.

    Raises SystemExit if a file belongs to none.
    """
    sources = [Path(path) for path in json.loads((root / "build" / "contents.json").read_text())]
    owners = {
        Path(distribution.locate_file(file)): distribution
        for distribution in distributions()
        for file in distribution.files or []
    }
    packages = {owners[path] for path in sources if path in owners}
    others = [path for path in sources if path not in owners and not path.is_relative_to(root)]
    libraries = [path for path in others if not _is_pythons(path)]
    parts = [
        *map(_package, packages),
        *_libraries_of_wheels(path for path in sources if path in owners),
        *_told_by_wheels(packages),
        *_python([path.name for path in libraries]),
        *set(map(_system_library, libraries)),
        _sqlite(),
        *_swagger_ui(root / "app" / "documentation" / "swagger-ui"),
    ]
    unique = {str(part.purl): part for part in parts}
    return sorted(unique.values(), key=lambda part: (part.name.lower(), str(part.purl)))


def _is_pythons(path: Path) -> bool:
    folders = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")]
    return path.name.startswith("libpython") or any(map(path.is_relative_to, folders))


def _package(distribution: Distribution) -> Part:
    """Return a package of the environment."""
    metadata = distribution.metadata
    name = canonicalize_name(metadata["Name"])
    told = metadata.get("License-Expression") or metadata.get("License")
    files = distribution.files or []
    return Part(
        name,
        distribution.version,
        PackageURL("pypi", None, name, distribution.version),
        licence=_LICENCES.get(name) or told,
        texts=tuple(
            sorted(
                Path(distribution.locate_file(file))
                for file in files
                if _LICENCE_FILES.fullmatch(str(file))
            )
        ),
        note="Its bootloader and run-time hooks." if name == "pyinstaller" else None,
    )


def _libraries_of_wheels(paths: Iterable[Path]) -> Iterator[Part]:
    """Find the libraries that wheels bring in a directory of their own."""
    for path in paths:
        folder = path.parent.name
        if not folder.endswith(".libs"):
            continue
        within = canonicalize_name(folder.removesuffix(".libs"))
        project, licence, version = _told_by_library(path)
        purl = PackageURL("generic", None, project, version, {"file_name": path.name})
        cpe = _cpe(project, version)
        yield Part(path.name, version, purl, licence, file=path, within=within, cpe=cpe)


def _told_by_library(path: Path) -> tuple[str, str | None, str | None]:
    """Return project, licence and version of a library, as far as it tells."""
    if path.name.startswith("libpq-"):
        number = psycopg.pq.version()  # 180006 is 18.6.
        return "postgresql", "PostgreSQL", f"{number // 10_000}.{number % 10_000}"
    for beginning, project, licence, pattern in _TELLING:
        found = re.search(pattern, path.read_bytes())
        if path.name.startswith(beginning) and found:
            return project, licence, found[1].decode()
    return re.split(r"-[0-9a-f]{8}\.so", path.name)[0], None, None


def _cpe(project: str, version: str | None) -> str | None:
    """Return the name of a project in vulnerability databases, None if it is not known."""
    if version is None or project not in _CPE_NAMES:
        return None
    return f"cpe:2.3:a:{_CPE_NAMES[project]}:{version}:*:*:*:*:*:*:*"


def _told_by_wheels(packages: Iterable[Distribution]) -> Iterator[Part]:
    """Find the system packages that the SBOMs in wheels name as the source of their libraries."""
    for distribution in packages:
        for file in distribution.files or []:
            if not str(file).endswith(".cdx.json"):
                continue
            for told in json.loads(file.read_text())["components"]:
                purl = PackageURL.from_string(told["purl"])
                if purl.type != "pypi":
                    yield Part(
                        told["name"],
                        told["version"],
                        purl,
                        within=canonicalize_name(distribution.metadata["Name"]),
                        note="The wheel's own SBOM names it as the source of a library.",
                    )


def _python(libraries: list[str]) -> Iterator[Part]:
    """Return Python, and what is compiled into it unless the system's library is taken."""
    version = platform.python_version()
    stdlib = Path(sysconfig.get_path("stdlib"))
    short = sysconfig.get_python_version()
    candidates = (stdlib / "LICENSE.txt", Path(f"/usr/share/doc/python{short}/copyright"))
    texts = tuple(path for path in candidates if path.exists())[:1]
    add = partial(Part, texts=texts, within="python")
    purl = PackageURL("generic", None, "python", version)
    yield Part("python", version, purl, "Python-2.0", texts, cpe=_cpe("python", version))
    if not any(name.startswith("libexpat") for name in libraries):
        version = pyexpat.EXPAT_VERSION.removeprefix("expat_")
        purl = PackageURL("generic", None, "expat", version)
        yield add("expat", version, purl, "MIT", cpe=_cpe("expat", version))
    if not any(name.startswith("libmpdec") for name in libraries):
        version = decimal.__libmpdec_version__
        yield add("libmpdec", version, PackageURL("generic", None, "libmpdec", version))


def _system_library(path: Path) -> Part:
    """Return the Debian package of a library, or the file itself on another system."""
    for candidate in (path, path.resolve(), Path("/usr") / path.relative_to("/")):
        try:
            return _debian_package(_dpkg_query("--search", str(candidate)).partition(": ")[0])
        except (OSError, subprocess.CalledProcessError):
            continue
    if ".so" not in path.name:
        raise SystemExit(f"{path} is in the binary, and belongs to no part that is known")
    name = path.name.partition(".so")[0]
    purl = PackageURL("generic", None, name, None, {"file_name": path.name})
    return Part(name, None, purl, file=path, note="A library of the system that built the binary.")


def _debian_package(owner: str) -> Part:
    """Return an installed package, such as `libssl3:amd64`."""
    told = _dpkg_query("--show", "--showformat=${Package} ${Version} ${Architecture}", owner)
    name, version, architecture = told.split()
    system = platform.freedesktop_os_release()["ID"]
    purl = PackageURL("deb", system, name, version, {"arch": architecture})
    copyright_file = Path(f"/usr/share/doc/{name}/copyright")
    texts = (copyright_file,) if copyright_file.exists() else ()
    return Part(name, version, purl, texts=texts)


def _dpkg_query(*words: str) -> str:
    command = ["dpkg-query", *words]
    ended = subprocess.run(  # noqa: S603 - nobody chooses the words but us
        command, capture_output=True, text=True, check=True
    )
    return ended.stdout


def _sqlite() -> Part:
    """Return the SQLite that is compiled into APSW."""
    version = apsw.sqlite_lib_version()
    return Part(
        "sqlite",
        version,
        PackageURL("generic", None, "sqlite", version),
        "blessing",
        within="apsw",
        cpe=_cpe("sqlite", version),
        note="In the public domain.",
    )


def _swagger_ui(folder: Path) -> Iterator[Part]:
    """Return Swagger UI, and the part of its bundle that guards against scripts."""
    manifest = json.loads((folder / "manifest.json").read_text())
    version = manifest["version"]
    texts = tuple(folder / name for name in ("LICENSE", "NOTICE"))
    name = manifest["name"]
    yield Part(name, version, PackageURL("npm", None, name, version), "Apache-2.0", texts)
    version = manifest["dompurify"]
    purl = PackageURL("npm", None, "dompurify", version)
    texts = (folder / "swagger-ui-bundle.js.LICENSE.txt", folder / "LICENSE")
    licence = "MPL-2.0 OR Apache-2.0"
    yield Part("dompurify", version, purl, licence, texts, within=name)
