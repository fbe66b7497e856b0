"""The private file format of prometheus-client, which app.operations.metrics_files writes too."""

import os
import struct
from configparser import ConfigParser
from importlib.metadata import version
from pathlib import Path

import pytest
from prometheus_client.mmap_dict import MmapedDict

from app.operations import metrics_files

ROOT = Path(__file__).parents[2]
# Of all lengths modulo 8, in bytes and not in characters, and longer than a page.
VALUES = {"k" * length: 1.5 * length for length in range(1, 18)} | {
    "é€🚗": 0.25,
    "x" * 5_000: 1e300,
}
WORKER = 7


@pytest.fixture
def directory(tmp_path, monkeypatch) -> Path:
    """The directory of this process as a master."""
    monkeypatch.setenv(metrics_files.ENVIRONMENT, "")
    metrics_files.prepare(tmp_path)
    return tmp_path / "metrics" / str(os.getpid())


def write_with_library(path: Path, values: dict[str, float]) -> bytes:
    """Write a file as the library does, and return the part of it that is in use."""
    written = MmapedDict(str(path))
    for key, value in values.items():
        written.write_value(key, value, 0.0)
    written.close()
    content = path.read_bytes()
    (used_bytes,) = struct.unpack_from("i", content)
    return content[:used_bytes]


def read_with_library(path: Path) -> dict[str, float]:
    """Read a file as the library does."""
    entries = MmapedDict.read_all_values_from_file(str(path))
    return {key: value for key, value, *_ in entries}


def test_the_version_that_is_tested_is_the_only_one_installed():
    """`pip install verifyd` takes exactly the version whose format these tests have seen."""
    config = ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    wanted = config["options"]["install_requires"].split("\n")
    assert f"prometheus-client =={version('prometheus-client')}" in wanted


def test_the_library_has_not_changed_its_format(tmp_path):
    """A count is the used bytes, then for each entry the key's length, the key, value and time."""
    assert write_with_library(tmp_path / "counter_7.db", {"key": 2.5}) == (
        struct.pack("<i4x", 32) + struct.pack("<i", 3) + b"key " + struct.pack("<dd", 2.5, 0.0)
    )


def test_what_we_write_is_what_the_library_writes(directory):
    """Folding one worker gives the bytes in use of its file, and the library reads them."""
    theirs = write_with_library(directory / f"counter_{WORKER}.db", VALUES)
    metrics_files.fold(())
    ours = directory / "counter_0.db"
    assert ours.read_bytes() == theirs
    assert read_with_library(ours) == VALUES


def test_the_library_goes_on_in_what_we_wrote(directory):
    """A folded file can be opened and written by the library as its own."""
    write_with_library(directory / f"counter_{WORKER}.db", VALUES)
    metrics_files.fold(())
    ours = directory / "counter_0.db"
    write_with_library(ours, {"k": 7.0, "new": 8.0})
    assert read_with_library(ours) == {**VALUES, "k": 7.0, "new": 8.0}


def test_the_library_takes_reserved_space_as_an_empty_file(directory):
    """What is reserved holds no count, keeps its size, and counts from the first write on."""
    metrics_files.reserve()
    reserved = directory / f"counter_{os.getpid()}.db"
    size_bytes = reserved.stat().st_size
    assert read_with_library(reserved) == {}
    write_with_library(reserved, VALUES)
    assert read_with_library(reserved) == VALUES
    assert reserved.stat().st_size == size_bytes


def test_the_library_alone_would_map_a_file_without_blocks(tmp_path):
    """It makes sparse files, so space must be reserved: a full disk would kill the worker."""
    path = tmp_path / "counter_7.db"
    MmapedDict(str(path)).close()
    found = path.stat()
    assert found.st_blocks * 512 < found.st_size
