"""The lines of `verifyd demo` and of the README do what they say."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.contract.document_walk import operations
from tests.contract.pages import section
from tests.programs import needs
from tests.system.processes import Service, environment, free_port, run_command

PROMISED = {
    "insured: a policy is in force": lambda told: told["insured"] is True,
    "not insured: the policy has lapsed": lambda told: told["insured"] is False and told["policy"],
    "404: no register knows this plate": lambda told: told["code"] == "vehicle_not_found",
    "three at once, one of them in no register": lambda told: (
        (told["processed"], told["successful"], told["failed"]) == (3, 2, 1)
    ),
    "not road-legal: off the road, SORN": lambda told: told["reasons"]["roadTaxPaid"] == "sorn",
    "not known: no register knows an MOT": lambda told: "motValid" in told["unknown"],
    "the domains of the account": lambda told: len(told["domains"]) == 2,
    "201: a new domain, or 409 if it exists already": lambda told: told["status"] == "active",
    "429 with Retry-After: 6 requests, where 5 in 10 seconds are allowed": (
        lambda told: re.fullmatch(
            r"(?i)(HTTP/1.1 200 OK\n){5}HTTP/1.1 429 .*\nRetry-After: 2\n", told
        )
    ),
    "sandbox: invented answers for tests, 500 here": lambda told: told["status"] == 500,
}


DEPENDS_ON_THE_DAY = {
    *("id", "request_id", "created_at", "lastUpdated", "lastChecked"),
    *("number", "insurer", "type", "validFrom", "validTo", "requestsRemaining"),
    *("created", "asOf", "lastDay", "next", "nextSweep"),
}
FIRST_FILE = "Load your own first file"


@needs("curl", "curl")
def test_every_line_of_the_demo_does_what_it_says(tmp_path):
    """A shell runs the lines with `export` and each line as printed, in order."""
    bind = f"127.0.0.1:{free_port()}"
    settings: dict[str, Any] = {
        "database_url": f"sqlite:///{tmp_path / 'demo.db'}",
        "mot_first_years": 3,
        "complete_registers": "demo",
    }
    run_command("migrate", "--unknown", "on", **settings)
    intro, *shown = run_command("demo", bind=bind, **settings).stdout.split("# ")
    exports = "\n".join(re.findall("(?m)^export .*_?KEY=.*$", intro))
    with Service(tmp_path, bind, is_warm=True, workers=1, **settings) as service:
        service.wait_ready()
        titles = []
        for title, line, *_ in (step.splitlines() for step in shown[: len(PROMISED)]):
            assert len(line) < 200
            script = f"{exports}\n{line}"
            run = subprocess.run(["sh", "-c", script], capture_output=True, check=True, text=True)
            assert run.stdout.endswith("\n")
            told = run.stdout.replace("\r", "")
            told = json.loads(told) if told.startswith("{") else told
            assert PROMISED[title](told), (title, told)
            titles.append(title)
    assert titles == list(PROMISED)


def test_the_document_has_the_same_lines(tmp_path):
    """`--json` has as many lines as there are expected results."""
    database_url = f"sqlite:///{tmp_path / 'demo.db'}"
    run_command("migrate", "--unknown", "on", database_url=database_url)
    ended = run_command("demo", "--json", database_url=database_url)
    assert len(json.loads(ended.stdout)["curl"]) == len(PROMISED)


def lasting(value: Any) -> Any:
    """Return an answer without ids, times and other values that depend on the day."""
    if isinstance(value, dict):
        return {
            name: type(member).__name__ if name in DEPENDS_ON_THE_DAY else lasting(member)
            for name, member in value.items()
        }
    return [lasting(each) for each in value] if isinstance(value, list) else value


@needs("curl", "curl")
def test_the_operations_of_the_readme_are_answered_as_it_shows(tmp_path):
    """A shell runs a line for each operation, and the answer equals the line below it."""
    bind = f"127.0.0.1:{free_port()}"
    text = section("README.md", "The operations")
    shown = re.findall(r"(?m)^\$ (curl .*)\n(\{.*\}|204)$", text)
    assert len(shown) == text.count("\n$ ") == 16
    settings: dict[str, Any] = {
        "database_url": f"sqlite:///{tmp_path / 'demo.db'}",
        "mot_first_years": 3,
        "complete_registers": "demo",
    }
    made = json.loads(run_command("demo", "--json", bind=bind, **settings).stdout)
    with Service(tmp_path, bind, is_warm=True, workers=1, **settings) as service:
        service.wait_ready()
        for line, answer in shown:
            command = line.replace("127.0.0.1:8000", bind)
            run = subprocess.run(
                ["sh", "-c", command], capture_output=True, check=True, env={"KEY": made["key"]}
            )
            assert lasting(json.loads(run.stdout)) == lasting(json.loads(answer)), line
        called = {(each["route"], each["method"].lower()) for each in service.lines("stdout")}
    assert called - {("/readyz", "get")} == {
        (path, method)
        for path, method, operation in operations()
        if "Operations" not in operation["tags"]
    }


@pytest.mark.system_long
def test_the_first_file_of_the_readme_is_loaded(tmp_path):
    """Its commands, except `serve`, run as they are, and print what it shows."""
    first, second = re.findall(r"(?ms)^```sh\n(.*?)^```", section("README.md", FIRST_FILE))
    (shown,) = re.findall(
        r"(?ms)^\$ verifyd lookup [^\n]*\n(.*?)  \.\.\.\n```", section("README.md", FIRST_FILE)
    )
    assert second.splitlines()[-1].startswith("verifyd serve ")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "bin").symlink_to(Path(sys.executable).parent)
    script = first + second.replace("verifyd serve ", "verifyd check ")
    run = subprocess.run(
        ["sh", "-e", "-c", script],
        cwd=tmp_path,
        env=environment() | {"COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=True,
    )
    for quoted in re.findall(r'"([a-z0-9 ]+)"$', second, re.MULTILINE):
        assert re.search(quoted.replace(" ", " +"), run.stdout), quoted
    printed = re.sub(r"\d{4}-\d\d-\d\d", "DAY", run.stdout)
    assert re.sub(r"\d{4}-\d\d-\d\d", "DAY", shown) in printed
    assert "all settings are right" in run.stdout
