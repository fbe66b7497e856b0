"""Tell what dist/verifyd is made of: an SBOM (CycloneDX), and the licences of its parts.

    .venv-binary/bin/python deploy/binary/describe.py

build.sh runs it after PyInstaller, which leaves the list of all files in build/contents.json.
A list of the build environment would name tools that are not in the binary, and miss libraries.
Each file must belong to a part that is known, or the build fails. Both documents depend on the
binary and its commit alone.
"""

import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.bom_ref import BomRef
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from parts import Part, parts_of_binary

_LINE = "=" * 80


def main(root: Path) -> None:
    """Write dist/verifyd.cdx.json and dist/verifyd.licenses.txt.

    Args:
        root: the repository, with the binary in dist/.
    """
    parts = parts_of_binary(root)
    binary = root / "dist" / "verifyd"
    version = re.findall(r'VERSION = "(.*)"', (root / "app" / "version.py").read_text())[0]
    contents = json.loads((root / "build" / "contents.json").read_text())
    glibc = needed_glibc(Path(path) for path in contents if ".so" in Path(path).name)
    text = sbom(parts, binary, version, glibc, int(os.environ["SOURCE_DATE_EPOCH"]))
    binary.with_name("verifyd.cdx.json").write_text(text, encoding="utf-8")
    binary.with_name("verifyd.licenses.txt").write_text(licences(parts), encoding="utf-8")


def sbom(
    parts: Iterable[Part], binary: Path, version: str, glibc: str, made_at_epoch_seconds: int
) -> str:
    """Return the SBOM as JSON. The serial number follows from the binary's hash."""
    digest = sha256(binary)
    program = Component(
        type=ComponentType.APPLICATION,
        name="verifyd",
        version=version,
        bom_ref=BomRef("verifyd"),
        purl=PackageURL("generic", None, "verifyd", version),
        hashes=[digest],
        properties=[Property(name="verifyd:glibc", value=glibc)],
    )
    bom = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_OID, digest.content))
    bom.metadata.component = program
    bom.metadata.timestamp = datetime.fromtimestamp(made_at_epoch_seconds, UTC)
    components = {part: component(part) for part in parts}
    bom.components.update(components.values())
    for outer, parent in [(None, program), *((part.name, components[part]) for part in parts)]:
        inner = [components[part] for part in parts if part.within == outer]
        bom.register_dependency(parent, inner)
    return f"{JsonV1Dot6(bom).output_as_string(indent=2)}\n"


def needed_glibc(libraries: Iterable[Path]) -> str:
    """Return the oldest glibc, such as `2.34`, that has all that the libraries take from it."""
    named = (re.findall(rb"\0GLIBC_2\.(\d+)(?=\0)", path.read_bytes()) for path in libraries)
    return f"2.{max(int(minor) for minors in named for minor in minors)}"


def component(part: Part) -> Component:
    """Return a part as the SBOM names it."""
    licence = LicenseFactory().make_from_string(part.licence) if part.licence else None
    return Component(
        type=ComponentType.LIBRARY,
        name=part.name,
        version=part.version,
        bom_ref=BomRef(str(part.purl)),
        purl=part.purl,
        cpe=part.cpe,
        description=part.note,
        licenses=[licence] if licence else [],
        hashes=[sha256(part.file)] if part.file else [],
    )


def sha256(path: Path) -> HashType:
    """Return the hash of a file as the SBOM holds it."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return HashType(alg=HashAlgorithm.SHA_256, content=digest)


def licences(parts: Iterable[Part]) -> str:
    """Return the text of all licences, part by part."""
    sections = ["verifyd contains the parts below, each under the licence that follows its name.\n"]
    for part in parts:
        title = f"{part.name} {part.version or ''}".rstrip()
        told = [part.licence, part.note, f"part of {part.within}" if part.within else None]
        sections.append("\n".join([_LINE, title, *filter(None, told), _LINE, ""]))
        sections += [path.read_text(encoding="utf-8", errors="replace") for path in part.texts]
        if not part.texts:
            sections.append("No text of its licence comes with it.\n")
    return "\n".join(sections)


if __name__ == "__main__":
    main(Path(__file__).parents[2])
