"""Who runs a command, as the kernel and sudo know it (D130)."""

import json
import os
import pwd
import subprocess

import pytest

from app.storage.engine import close_quietly, open_engine
from app.storage.stores import migrate
from tests.system.processes import PROGRAM, ROOT, environment

# The login of a session is set once, by whoever opens it.
AS_LOGIN = ("sh", "-c", 'echo "$LOGIN" >/proc/self/loginuid && exec "$@"', "sh")
LOGIN = pwd.getpwnam("daemon")


def test_the_login_stays_the_same_under_another_user(tmp_path):
    """A command records the session's user, not the user that it runs as."""
    url = f"sqlite:///{tmp_path / 'verifyd.db'}"
    engine = open_engine(url, create=True)
    migrate(engine)
    close_quietly(engine)
    env = environment(database_url=url, state_dir=tmp_path / "state")
    env |= {"LOGIN": str(LOGIN.pw_uid), "SUDO_USER": "ann"}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        line = [*AS_LOGIN, *words]
        return subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, check=False)

    if run("true").returncode:
        pytest.skip("only root in a session without a login may set one")
    ended = run(*PROGRAM, "accounts", "create", "acme")
    assert (ended.returncode, ended.stderr) == (0, "")
    (action,) = json.loads(run(*PROGRAM, "actions", "list", "--json").stdout)
    assert (action["actor"], action["sudo_user"]) == (LOGIN.pw_name, "ann")
    assert LOGIN.pw_uid != os.geteuid()
