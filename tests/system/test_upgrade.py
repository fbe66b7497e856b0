"""Upgrades from the last commit of the previous schema to this one, with builds of both."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from app.storage.versions import program_schema
from tests.system.binary import built, copy_tree, last_commit_at, tree_of_commit
from tests.system.creators import Creators
from tests.system.processes import Service, environment
from tests.system.site import behind_site

ENOUGH = 1_000_000


def run(binary: Path, *words: object, **settings: Any) -> str:
    """Run a command of a binary, which must succeed, and return its output."""
    ended = subprocess.run(
        [str(binary), *map(str, words)],
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.system_long
def test_the_schema_before_is_left_and_found_again(tmp_path, listener, serve):
    """Check, backup, migration, switch and rollback under load fail no request."""
    old = built(tree_of_commit(tmp_path / "former", last_commit_at(program_schema() - 1)))
    new = built(copy_tree(tmp_path / "tree"))
    bind = f"unix:{listener.getsockname()}"
    settings = {"database_url": f"sqlite:///{tmp_path}/new.db", "state_dir": tmp_path / "new"}

    def serving(binary: Path) -> Service:
        started: Service = serve(
            command=[str(binary), "serve"], bind=bind, listener=listener, **settings
        )
        return started

    def schema() -> int:
        told: int = json.loads(run(new, "migrate", "--status", "--json", **settings))["database"]
        return told

    limits = f"--requests {ENOUGH} --window 60 --bulk-max 1 --domains-max {ENOUGH}"
    run(old, "migrate", **settings)
    run(old, "plans", "set", "standard", *limits.split(), **settings)
    run(old, "accounts", "create", "acme", **settings)
    key = json.loads(run(old, "keys", "create", "acme", "--json", **settings))["key"]
    service = serving(old)
    assert 0 < schema() < program_schema()
    with behind_site(bind, tmp_path) as site, Creators(site, [key]) as creators:
        creators.wait_for(8)
        run(new, "check", **settings)
        run(old, "backup", tmp_path / "backups", **settings)
        run(new, "migrate", **settings)
        assert schema() == program_schema()
        for binary in (new, old):
            creators.wait_for(8)
            assert service.stop() == 0
            service = serving(binary)
        creators.wait_for(8)
    assert creators.statuses("POST") == {201}
    assert creators.statuses("GET") == {200}
