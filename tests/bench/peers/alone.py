"""The parts that measure verifyd alone."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.peers.answers import insurance_path
from tests.bench.peers.compared import (
    drive_and_watch,
    request_files,
    steady_sample,
    steady_sample_until,
)
from tests.bench.peers.contestants import Contestant, serving
from tests.bench.peers.data import Data, build
from tests.bench.peers.results import Options, Sample
from tests.bench.processes import memory_bytes
from tests.system.processes import ROOT, SERVE, Service, until

BINARY = ROOT / "dist" / "verifyd"
"""`make binary` builds it."""
Samples = dict[str, list[Sample]]


def measure_memory(directory: Path, data: Data, options: Options) -> Samples:
    """Measure a service after it has answered each operation for the length of a round."""
    samples = []
    files = request_files(directory, data)
    for _ in range(options.rounds):
        with serving(data, directory, options.processes) as service:
            verifyd = _contestant(service)
            for requests in files.values():
                drive_and_watch(verifyd, requests, data.key, options.seconds, options.connections)
            samples.append({"memory_mb": memory_bytes(*verifyd.pids) / 1e6})
    return {"verifyd": samples}


def measure_start(directory: Path, data: Data, options: Options) -> Samples:
    """Measure the time from the start to the first answer, of the source and of a built binary."""
    commands: dict[str, Sequence[str]] = {"source": SERVE}
    if BINARY.exists():
        commands["binary"] = (str(BINARY), "serve")
    samples: Samples = {name: [] for name in commands}
    (asked,) = data.some_plates(1)
    for _ in range(options.rounds):
        for name, command in commands.items():
            started_at = time.monotonic()
            with serving(data, directory, options.processes, command=command) as service:
                until(lambda: _is_answering(service, asked), "the first answer")
                samples[name].append({"first_answer_s": time.monotonic() - started_at})
    return samples


def _is_answering(service: Service, text: str) -> bool:
    try:
        return service.get(insurance_path(text)).status == 200
    except OSError:
        return False


def measure_load(directory: Path, data: Data, options: Options) -> Samples:
    """Measure look-ups at a fixed rate on an idle service, and while all vehicles are replaced."""
    file = data.installation.directory / "vehicles.csv"
    samples: Samples = {"idle": [], "during a load": []}
    with serving(data, directory, options.processes) as service:
        verifyd = _contestant(service)
        steady_sample(verifyd, data, options.rate, 1)
        for _ in range(options.rounds):
            samples["idle"].append(steady_sample(verifyd, data, options.rate, options.seconds))
            with ThreadPoolExecutor() as pool:
                load = pool.submit(data.installation.load, file)
                sample = steady_sample_until(verifyd, data, options.rate, load.done)
            load.result()
            samples["during a load"].append(sample)
    return samples


def measure_growth(directory: Path, _data: Data, options: Options) -> Samples:
    """Measure the median look-up on registers of two sizes, alternately."""
    built = {size: build(directory / f"of-{size}", size) for size in options.sizes}
    files = {size: request_files(data.installation.directory, data) for size, data in built.items()}
    samples: Samples = {str(size): [] for size in options.sizes}
    for number in range(options.rounds + 1):
        for size, data in built.items():
            with serving(data, directory, options.processes) as service:
                verifyd, requests = _contestant(service), files[size]["lookup"]
                sample = drive_and_watch(verifyd, requests, data.key, options.seconds, 1)
                if number:  # The first round warms the caches up.
                    samples[str(size)].append(sample)
    return samples


def _contestant(service: Service) -> Contestant:
    service.wait_ready()
    return Contestant("verifyd", service.bind, [service.process.pid])


ALONE: Mapping[str, Callable[[Path, Data, Options], Samples]] = {
    "memory": measure_memory,
    "start": measure_start,
    "load": measure_load,
    "growth": measure_growth,
}
