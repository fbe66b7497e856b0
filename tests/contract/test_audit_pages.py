"""The pages describe every member of a record, and every fault that is named (D115, D116)."""

import re
import subprocess
from pathlib import Path
from typing import get_args

import pytest

from app.audit.faults import FaultKind
from app.audit.record import Plate, Record
from app.config import Config
from tests.contract.pages import PAGES, ROOT, quoted, table


def test_the_table_of_members_is_complete():
    """The table has every member of a record, and of a plate."""
    rows = table("Member of a record")
    told = [name for row in rows for name in quoted(row[0])]
    assert sorted(told) == sorted(Record.__struct_fields__)
    (plates,) = [row[1] for row in rows if row[0] == "`plates`"]
    assert set(Plate.__struct_fields__) <= set(quoted(plates))


def test_the_table_of_faults_is_complete():
    """The table has every kind of fault."""
    kinds = get_args(FaultKind)
    told = [name for row in table("Fault that `audit verify` names") for name in quoted(row[0])]
    assert sorted(told) == sorted(kinds)


@pytest.mark.parametrize("unit", ["verifyd-audit-seal", "verifyd-audit-prune"])
@pytest.mark.parametrize("variable", ["VERIFYD_AUDIT_DIR", "VERIFYD_DATA_DIR"])
def test_units_run_only_where_there_is_a_trail(tmp_path, unit, variable):
    """Without one the program is not even started, wherever the trail would be."""
    text = (ROOT / "deploy" / "systemd" / f"{unit}.service").read_text()
    (script,) = re.findall(r"(?m)^ExecCondition=/bin/sh -c '(.*)'$", text)
    environment = {"VERIFYD_DATA_DIR": "/nowhere", variable: str(tmp_path)}

    def run() -> int:
        words = ["/bin/sh", "-c", script.replace("$$", "$")]
        return subprocess.run(words, env=environment, check=False).returncode

    directory = tmp_path if variable == "VERIFYD_AUDIT_DIR" else tmp_path / "audit"
    directory.mkdir(exist_ok=True)
    assert run() == 1
    (directory / "owner.json").touch()
    assert run() == 0


@pytest.mark.parametrize("url", ["sqlite:////var/lib/verifyd/verifyd.db", "postgresql:///verifyd"])
def test_units_may_write_where_the_trail_is_by_default(url):
    """All units with the sandbox can write to the directory, whichever database it is."""
    lines = (ROOT / "deploy" / "systemd" / "hardening.conf").read_text().splitlines()
    (given,) = [line for line in lines if line.startswith("Environment=VERIFYD_")]
    settings = dict(word.split("=") for word in given.removeprefix("Environment=").split())
    settings |= {"VERIFYD_DATABASE_URL": url, "VERIFYD_STATE_DIR": "/run/verifyd"}
    (writable,) = [line for line in lines if line.startswith("StateDirectory=")]
    directory = Path("/var/lib", writable.removeprefix("StateDirectory="))
    assert Config.from_env(settings).audit_dir == directory / "audit"


def test_the_installer_knows_the_units_of_the_trail():
    """Both are installed, started, shut in and removed like the others."""
    text = (ROOT / "deploy" / "install.sh").read_text()
    words = {
        name: re.search(rf'(?s)^{name}="(.*?)"', text, re.MULTILINE)[1].split()  # type: ignore[index]
        for name in ("services", "started", "units")
    }
    for job in ("seal", "prune"):
        assert f"verifyd-audit-{job}" in words["services"]
        assert f"verifyd-audit-{job}.timer" in words["started"]
        assert {f"verifyd-audit-{job}.{kind}" for kind in ("service", "timer")} <= set(
            words["units"]
        )


def test_pages_that_edit_all_services_name_those_of_the_trail():
    """What the other jobs need, such as the database's credential, these two need as well."""
    lists = re.findall(
        r"systemctl edit verifyd ((?:verifyd-[a-z-]+[\s\\]*)+)", "\n".join(PAGES.values())
    )
    of_all = [set(each.split()) for each in lists if "verifyd-backup" in each]
    assert len(of_all) >= 5
    for services in of_all:
        assert {"verifyd-audit-seal", "verifyd-audit-prune"} <= services
