"""What `verifyd demo` prints can be pasted into a shell, and shows what it says it shows."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.system.processes import Service, free_port, run_command

PROMISED = {
    "insured: a policy is in force": lambda told: told["insured"] is True,
    "not insured: the policy has lapsed": lambda told: told["insured"] is False and told["policy"],
    "404: no register knows this plate": lambda told: told["code"] == "vehicle_not_found",
    "road-legal: all four checks hold": lambda told: all(told["checks"].values()),
    "not compliant: off the road (SORN)": lambda told: told["reasons"]["roadTaxPaid"] == "sorn",
    "not compliant: a fine is owed": lambda told: told["checks"]["noOutstandingFines"] is False,
    "three at once; one of them is unknown": lambda told: (
        (told["processed"], told["successful"], told["failed"]) == (3, 2, 1)
    ),
    "the account's domains": lambda told: len(told["domains"]) == 2,
    "one domain": lambda told: told["name"] == "example.com",
    "201: a new domain; 409 when it is there already": lambda told: told["status"] == "active",
}


@pytest.mark.skipif(not shutil.which("curl"), reason="the lines are for curl, which is not there")
def test_every_line_of_the_demo_does_what_it_says(tmp_path):
    """Each line is run by a shell as it is printed, in the order in which they are printed."""
    bind = f"127.0.0.1:{free_port()}"
    settings: dict[str, Any] = {
        "database_url": f"sqlite:///{tmp_path / 'demo.db'}",
        "mot_first_years": 3,
    }
    shown = run_command("demo", bind=bind, **settings).stdout.split("# ")[1:]
    with Service(tmp_path, bind, workers=1, **settings) as service:
        service.wait_ready()
        titles = []
        for title, line, *_ in (step.splitlines() for step in shown):
            run = subprocess.run(["sh", "-c", line], capture_output=True, check=True)
            told = json.loads(run.stdout)
            assert PROMISED[title](told), (title, told)
            titles.append(title)
    assert titles == list(PROMISED)


def test_the_document_has_the_same_lines(tmp_path):
    """`--json` gives as many lines as there are promises."""
    ended = run_command("demo", "--json", database_url=f"sqlite:///{tmp_path / 'demo.db'}")
    assert len(json.loads(ended.stdout)["curl"]) == len(PROMISED)
