"""The SBOM and the licences of the binary, for a made-up list of files."""

import importlib
import json
import re
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path
from types import ModuleType

import falcon
import psycopg_binary
import pytest
from jsonschema import Draft7Validator
from referencing import Registry, Resource

ROOT = Path(__file__).parents[2]
COMMITTED_AT = 1795262219


@pytest.fixture
def describe(monkeypatch) -> ModuleType:
    """The script that the build runs."""
    monkeypatch.syspath_prepend(str(ROOT / "deploy" / "binary"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(COMMITTED_AT))
    return importlib.import_module("describe")


@pytest.fixture
def tree(tmp_path) -> Path:
    """A tree with a binary that contains one file of each sort."""
    (tmp_path / "app" / "documentation").mkdir(parents=True)
    (tmp_path / "app" / "version.py").write_text('VERSION = "1.2.3"\n')
    swagger_ui = Path("app", "documentation", "swagger-ui")
    (tmp_path / swagger_ui).symlink_to(ROOT / swagger_ui)
    (tmp_path / "build").mkdir()
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "verifyd").write_bytes(b"\x7fELF")
    list_contents(tmp_path, falcon.__file__, json.__file__, *wheel_libraries())
    return tmp_path


def wheel_libraries() -> list[str]:
    """Add the libraries of the psycopg-binary wheel."""
    folder = Path(psycopg_binary.__file__).parents[1] / "psycopg_binary.libs"
    return [str(path) for path in folder.iterdir()]


def list_contents(tree: Path, *paths: str) -> None:
    """Write the list of the binary's files, as PyInstaller leaves it."""
    ours = str(tree / "app" / "version.py")
    (tree / "build" / "contents.json").write_text(json.dumps([ours, *paths]))


def described(tree: Path) -> dict:
    """Return the SBOM of a tree."""
    return json.loads((tree / "dist" / "verifyd.cdx.json").read_text())


def validator() -> Draft7Validator:
    """The schema of CycloneDX 1.6, as its project publishes it."""
    folder = files("cyclonedx") / "schema" / "_res"
    names = [f"{name}.SNAPSHOT.schema.json" for name in ("bom-1.6", "spdx", "jsf-0.82")]
    schemas = {name: json.loads((folder / name).read_text()) for name in names}
    base = "http://cyclonedx.org/schema/"
    registry = Registry().with_resources(
        (base + name, Resource.from_contents(schema)) for name, schema in schemas.items()
    )
    return Draft7Validator(schemas[names[0]], registry=registry)


def test_the_sbom_is_valid(describe, tree):
    """The SBOM conforms to CycloneDX 1.6, and a broken one does not."""
    describe.main(tree)
    found = described(tree)
    validator().validate(found)
    assert not validator().is_valid({**found, "components": [{"name": "no type"}]})


def test_it_names_what_is_in_the_binary_and_nothing_else(describe, tree):
    """It has packages, their libraries, Python, SQLite and Swagger UI, and nothing else."""
    describe.main(tree)
    found = {each["name"]: each for each in described(tree)["components"]}
    libraries = {Path(path).name for path in wheel_libraries()}
    told = {each for each in found if found[each]["purl"].startswith("pkg:rpm/")}
    compiled_into_python = {"expat", "libmpdec"} & found.keys()
    assert found.keys() - libraries - told - compiled_into_python == {
        "dompurify",
        "falcon",
        "psycopg-binary",
        "python",
        "sqlite",
        "swagger-ui-dist",
    }
    assert libraries <= found.keys()
    assert found["falcon"]["version"] == distribution("falcon").version
    assert found["falcon"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]


def test_a_scanner_can_match_what_is_compiled_in(describe, tree):
    """Important libraries have the names that vulnerability databases use."""
    describe.main(tree)
    named = [each["cpe"] for each in described(tree)["components"] if "cpe" in each]
    found = {":".join(each.split(":")[3:5]) for each in named}
    assert {"openssl:openssl", "postgresql:postgresql", "python:python", "sqlite:sqlite"} <= found
    assert all(re.fullmatch(r"cpe:2\.3:a:\w+:\w+:\d+(\.\d+)+(:\*){7}", each) for each in named)


def test_it_is_the_same_whenever_it_is_made(describe, tree):
    """Serial number and time depend on binary and commit only."""
    describe.main(tree)
    first = described(tree)
    describe.main(tree)
    assert described(tree) == first
    assert first["metadata"]["timestamp"] == "2026-11-21T11:56:59+00:00"
    (tree / "dist" / "verifyd").write_bytes(b"another")
    describe.main(tree)
    assert described(tree)["serialNumber"] != first["serialNumber"]


def test_the_licences_are_there(describe, tree):
    """The text of each package's licence follows its name."""
    describe.main(tree)
    text = (tree / "dist" / "verifyd.licenses.txt").read_text()
    for name in ("falcon", "psycopg-binary", "python", "swagger-ui-dist"):
        _, _, section = text.partition(f"\n{name} ")
        assert "No text of its licence" not in section.partition("\n====")[2].partition("\n====")[0]
    assert "GNU LESSER GENERAL PUBLIC LICENSE" in text
    assert "PYTHON SOFTWARE FOUNDATION LICENSE" in text


def test_an_unknown_file_ends_the_build(describe, tree, tmp_path_factory):
    """The build fails if a file belongs to no known part."""
    stray = tmp_path_factory.mktemp("elsewhere") / "stray"
    stray.touch()
    list_contents(tree, str(stray))
    with pytest.raises(SystemExit, match="stray is in the binary"):
        describe.main(tree)
