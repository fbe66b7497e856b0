"""The private file format of prometheus-client, which app.serve.http.metrics_files writes too."""

import os
import struct
from configparser import ConfigParser
from importlib.metadata import version
from pathlib import Path

import pytest
from prometheus_client.mmap_dict import MmapedDict

from app.serve.http import metrics_files

ROOT = Path(__file__).parents[2]
# Labels with UTF-8 lengths of every remainder modulo 8, and one longer than a page.
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
    """Write a file with the library, and return the part in use."""
    written = MmapedDict(str(path))
    for key, value in values.items():
        written.write_value(key, value, 0.0)
    written.close()
    content = path.read_bytes()
    (used_bytes,) = struct.unpack_from("i", content)
    return content[:used_bytes]


def read_with_library(path: Path) -> dict[str, float]:
    """Read a file with the library."""
    entries = MmapedDict.read_all_values_from_file(str(path))
    return {key: value for key, value, *_ in entries}


def test_the_version_that_is_tested_is_the_only_one_installed():
    """The pinned version is the one whose format these tests check."""
    config = ConfigParser(interpolation=None)
    config.read(ROOT / "setup.cfg", encoding="utf-8")
    wanted = config["options"]["install_requires"].split("\n")
    assert f"prometheus-client =={version('prometheus-client')}" in wanted


def test_the_library_has_not_changed_its_format(tmp_path):
    """A file has its used bytes, then for each entry: key length, key, value and time."""
    assert write_with_library(tmp_path / "counter_7.db", {"key": 2.5}) == (
        struct.pack("<i4x", 32) + struct.pack("<i", 3) + b"key " + struct.pack("<dd", 2.5, 0.0)
    )


def test_our_files_equal_those_of_the_library(directory):
    """Folding one worker gives the used bytes of its file, and the library reads them."""
    theirs = write_with_library(directory / f"counter_{WORKER}.db", VALUES)
    metrics_files.fold(())
    ours = directory / "counter_0.db"
    assert ours.read_bytes() == theirs
    assert read_with_library(ours) == VALUES


def test_the_library_can_extend_our_files(directory):
    """The library can open and extend a folded file."""
    write_with_library(directory / f"counter_{WORKER}.db", VALUES)
    metrics_files.fold(())
    ours = directory / "counter_0.db"
    write_with_library(ours, {"k": 7.0, "new": 8.0})
    assert read_with_library(ours) == {**VALUES, "k": 7.0, "new": 8.0}


def test_the_library_takes_reserved_space_as_an_empty_file(directory):
    """Reserved space holds no count, keeps its size, and is used from the first write on."""
    metrics_files.reserve()
    reserved = directory / f"counter_{os.getpid()}.db"
    size_bytes = reserved.stat().st_size
    assert read_with_library(reserved) == {}
    write_with_library(reserved, VALUES)
    assert read_with_library(reserved) == VALUES
    assert reserved.stat().st_size == size_bytes


def test_the_library_alone_would_map_a_file_without_blocks(tmp_path):
    """The library makes sparse files, so without a reservation a full disk kills a worker."""
    path = tmp_path / "counter_7.db"
    MmapedDict(str(path)).close()
    found = path.stat()
    assert found.st_blocks * 512 < found.st_size
