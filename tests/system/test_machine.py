"""Install, operate and upgrade on a small Debian with systemd, without Python, by the pages."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.storage.versions import program_schema
from tests.contract.pages import PAGES, first_block
from tests.system.binary import built, copy_tree, last_commit_at, tree_of_commit
from tests.system.conftest import NEXT_MIGRATION
from tests.system.creators import Creators
from tests.system.machine import Machine, bring
from tests.system.nginx import make_certificate
from tests.system.processes import ROOT, until
from tests.system.site import behind_site
from tests.system.slow_clients import CLIENTS

pytestmark = pytest.mark.system_long

AUDIT = PAGES["deploy/docs/audit.md"]
ENOUGH = 1_000_000
# By default systemd closes the socket after this many starts in ten seconds.
RESTARTS_ALLOWED = 5
ASKED = "curl -sS --unix-socket /run/verifyd.sock"
# Backups that useradd and userdel make of the files they change.
ACCOUNT_COPIES = {f"/etc/{name}-" for name in ("passwd", "shadow", "group", "gshadow", "subuid")}
# The next release has its own schema, and does not serve while this file exists.
BROKEN = "/var/lib/verifyd/broken"
SETTINGS = "/etc/verifyd/verifyd.env"
# The schema of the first release, 0.1.0, which brought the installer.
FIRST_INSTALLED = 2
# A setting that this release does not know.
SETTING = '    further: str = setting("", str)\n\n'
REFUSAL = f"""

def prepare_state(config: Config) -> None:
    if os.path.exists("{BROKEN}"):
        raise SystemExit("broken")
    _prepare_state(config)
"""


@pytest.fixture
def machine(suite, binary, tmp_path, socket_directory) -> Iterator[Machine]:
    """A machine with the release in root's home: binary, deploy folder, certificate."""
    with Machine(socket_directory, suite=suite) as machine:
        bring(machine, binary)
        make_certificate(tmp_path)
        shutil.copy(tmp_path / "fullchain.pem", machine.path("/root/fullchain.pem"))
        shutil.copy(tmp_path / "key.pem", machine.path("/root/privkey.pem"))
        yield machine


@pytest.fixture
def installed(machine) -> Machine:
    """A machine on which the service runs."""
    machine.do("deploy/install.sh --binary verifyd")
    return machine


@pytest.mark.parametrize("suite", [pytest.param("bookworm", marks=pytest.mark.sample), "trixie"])
def test_the_commands_of_the_page_are_ten_and_work(machine):
    """The commands of `deploy/docs/install.md` lead from a bare machine to an answer over TLS.

    nginx warns of nothing in the site. What is installed here is no archive, which test_release.py
    builds.
    """
    block = first_block("deploy/docs/install.md", "Install it")
    packages, *commands, ask = block.splitlines()
    assert len(commands) + 2 <= 10
    assert packages == "sudo apt-get install nginx"  # It is installed already.
    machine.path("/srv/vehicles.csv").write_text("registration,make\nAB12CDE,FORD\n")
    release, checkout = "RELEASE/install.sh --trust-key release-key.pub", "deploy/install.sh"
    commands = [command.replace(release, f"{checkout} --binary verifyd") for command in commands]
    printed = "".join(machine.do(command) for command in commands)
    (key,) = re.findall(r"vfd_\w+", printed)
    answer = machine.do(ask.replace("$KEY", key).replace("HOST", "localhost") + " -k")
    assert '"make":"FORD"' in answer
    assert '"code":"unauthorized"' in machine.do("curl -sk https://localhost/nothing")
    cannot_connect = 7  # of curl
    assert machine.run("curl http://localhost/v1/vehicle/X/x").returncode == cannot_connect
    assert "[warn]" not in machine.run("nginx -t").stderr
    seen = machine.do("cat /proc/[0-9]*/cmdline; cat /var/log/nginx/*; journalctl --no-pager")
    assert "AB12CDE" not in seen
    assert key not in seen


def test_the_first_installation_takes_the_zone_of_the_host(machine):
    """Through the upgrades it stays, although the host moves."""
    machine.do("ln -sf /usr/share/zoneinfo/Europe/Amsterdam /etc/localtime")
    told = machine.do("deploy/install.sh --binary verifyd")
    assert "VERIFYD_TIMEZONE is Europe/Amsterdam, as in /etc/localtime" in told
    assert "time zone: Europe/Amsterdam; rules of tzdata" in machine.do("verifyd check")
    machine.do("ln -sf /usr/share/zoneinfo/Asia/Tokyo /etc/localtime")
    assert "VERIFYD_TIMEZONE" not in machine.do("deploy/install.sh --binary verifyd")
    told = machine.do("verifyd check")
    assert "time zone: Europe/Amsterdam, but Asia/Tokyo on this host; rules of tzdata" in told


def test_the_nightly_jobs_run(installed):
    """Backup and load of drop/ run in their sandbox, as their user.

    Their files are private.
    """
    installed.path("/var/lib/verifyd/drop/a.csv").write_text("registration\nAB12CDE\n")
    own = "chown verifyd: a.csv; chmod 600 a.csv; touch -d '-5 min' a.csv"
    installed.do(f"cd /var/lib/verifyd/drop; {own}")
    installed.do("systemctl start verifyd-import verifyd-backup")
    assert installed.do("cd /var/lib/verifyd/drop; find * -type f") == "loaded/a.csv\n"
    assert '"loaded": 1' in installed.do("verifyd imports list --json")
    readable = "find /etc/verifyd /var/lib/verifyd /run/verifyd ! -type l -perm /o=rwx"
    assert installed.do(readable) == ""
    (backup,) = installed.do("ls /var/lib/verifyd/backups").split()
    drop = "/var/lib/verifyd/drop"
    installed.do(f"mkdir {drop}/fleet; printf 'registration\nAB13CDE\n' >{drop}/fleet/a.csv")
    installed.do(f"install -d -o verifyd {drop}/other; cp {drop}/fleet/a.csv {drop}/other")
    installed.do(f"touch -d '-5 min' {drop}/*/a.csv")
    assert installed.run("systemctl start verifyd-import").returncode == 1
    assert (
        installed.do(f"cd {drop}; find * -name loaded -prune -o -type f -print") == "fleet/a.csv\n"
    )
    told = installed.do("journalctl -u verifyd-import")
    assert f"the user verifyd must be able to write to {drop}/fleet" in told
    installed.do("systemctl stop verifyd.socket verifyd.service")
    installed.do(f"verifyd restore /var/lib/verifyd/backups/{backup}")
    installed.do("systemctl start verifyd.socket verifyd.service")
    assert '"status":"ready"' in installed.do(f"{ASKED} http://localhost/readyz")


def test_the_audit_trail_is_sealed_backed_up_and_restored(installed):
    """In their sandboxes: service and timer seal, backup has the trail, and restore brings it."""
    trail, _, backed_up = AUDIT.partition("\n## Back up the trail\n")
    # These need another machine, or leave the host without its trail.
    trail = re.sub(
        r"\n## (Send digests|Switch the trail).*?(?=\n## |\Z)", "", trail, flags=re.DOTALL
    )
    switched_on, *others = re.findall(r"```sh\n(.*?)```", trail, re.DOTALL)
    installed.do(f"set -e; {switched_on}")
    installed.do(
        "SUDO_USER=ann verifyd lookup AB12CDE --reason THEFT --reference CASE-1 || test $? = 1"
    )
    installed.do("verifyd audit seal")
    # Everything that the page prints, but for the digest of somebody else's trail.
    for line in "".join(others).splitlines():
        if "--digest" not in line:
            installed.do(f"echo AB12CDE | {line}" if "--plate -" in line else line)
    found = json.loads(installed.do("verifyd audit search --plate AB12CDE --json"))
    assert (found[0]["reference"], found[0]["sudo_user"]) == ("CASE-1", "ann")
    summary = "/var/lib/verifyd/audit/summary.json"
    installed.do(f"rm {summary}; systemctl start verifyd-audit-seal verifyd-audit-prune")
    assert installed.path(summary).exists()
    # A journal that was kept on another machine has digests, too.
    installed.do("journalctl -u verifyd-audit-seal | verifyd audit verify --digests -")
    installed.do(f"rm {summary}")
    # The alarm of the master, which is the child of the binary that systemd started.
    main = installed.do("systemctl show -P MainPID verifyd").strip()
    installed.do(f"kill -ALRM $(cat /proc/{main}/task/{main}/children)")
    until(installed.path(summary).exists, "the service to seal")
    assert '"audit trail sealed: segments 0' in installed.do("journalctl -u verifyd")
    assert '"audit":"on, ' in installed.do(f"{ASKED} http://localhost/readyz")
    assert "audit trail: on, " in installed.do("verifyd check")
    unit = "/etc/systemd/system/verifyd-backup.service.d/audit.conf"
    command = re.findall(r"(?m)^ExecStart=(.* backup .*--audit.*)$", backed_up)
    installed.path(unit).write_text(f"[Service]\nExecStart=\nExecStart={command[0]}\n")
    installed.do("systemctl daemon-reload; systemctl start verifyd-backup")
    installed.do("systemctl start verifyd-backup")
    first, second = installed.do("ls -d /var/lib/verifyd/backups/verifyd-*").split()
    segments = installed.do(f"stat -c %h {first}/audit/00000001-*.ndjson").split()
    assert segments == ["2"]
    installed.do("systemctl stop verifyd.socket verifyd.service; rm -r /var/lib/verifyd/audit")
    told = installed.do(f"verifyd restore {second}")
    assert "its audit trail is in /var/lib/verifyd/audit" in told
    installed.do("systemctl start verifyd.socket verifyd.service")
    assert '"status":"ready"' in installed.do(f"{ASKED} http://localhost/readyz")
    assert "nothing that was sealed was changed" in installed.do("verifyd audit verify")
    readable = "find /etc/verifyd /var/lib/verifyd /run/verifyd ! -type l -perm /o=rwx"
    assert installed.do(readable) == ""


def test_the_unpacked_program_outlasts_the_cleaning_of_var_tmp(installed):
    """systemd-tmpfiles removes what is old in the private directory, but not the program."""
    main = installed.do("systemctl show -P MainPID verifyd").strip()
    temporary = Path(f"/proc/{main}/root/var/tmp")
    ages = "q /tmp 1777 root root 1s\\nq /var/tmp 1777 root root 1s\\n"
    installed.do(f"printf '{ages}' >/etc/tmpfiles.d/tmp.conf")
    installed.do(f"mkdir {temporary}/other; touch {temporary}/other/file")
    files = installed.do(f"find {temporary}/_MEI* -type f")
    cleaned = f"systemd-tmpfiles --clean; test ! -e {temporary}/other"
    until(lambda: installed.run(cleaned).returncode == 0, "the old files to be removed")
    assert installed.do(f"find {temporary}/_MEI* -type f") == files
    installed.do(f"kill -HUP $(cat /proc/{main}/task/{main}/children)")
    installed.do("systemctl start verifyd-backup verifyd-import verifyd-check; verifyd sweep")
    for path in ("readyz", "docs", "metrics"):
        installed.do(f"{ASKED} -f -o /dev/null http://localhost/{path}")


def test_the_journal_has_every_request(installed):
    """The rate limit of journald drops no line of a service that answers many requests at once."""
    asked = 1_000
    # By default it is 10,000 lines in 30 s, and up to six times as many on a large disk.
    limited = installed.path("/etc/systemd/journald.conf")
    limited.write_text("[Journal]\nRateLimitIntervalSec=1h\nRateLimitBurst=10\n")
    installed.do("systemctl restart systemd-journald verifyd")
    installed.do(f"{ASKED} -o /dev/null 'http://localhost/healthz?[1-{asked}]'")
    count = 'journalctl -u verifyd -o cat | grep -c \'"route":"/healthz"\''
    until(lambda: int(installed.do(count)) >= asked, "the journal to have all lines")


def test_an_uploader_reaches_the_drop_directory_and_nothing_else(installed):
    """As documented, another user's files are loaded through the bind mount."""
    block = first_block("deploy/docs/nightly-loads.md", "Give an uploader access")
    installed.do("useradd uploader")
    for command in block.splitlines():
        installed.do(command)
    write = "umask 022; cd /srv/upload; printf 'registration\nAB12CDE\n' >a.csv"
    as_uploader = "setpriv --reuid=uploader --regid=uploader --init-groups sh -c"
    installed.do(f'{as_uploader} "{write}; sha256sum a.csv >a.csv.sha256"')
    write = "umask 022; cd /srv/upload/nyc; printf 'registration\nAB13CDE\n' >b.csv"
    installed.do(f'{as_uploader} "{write}; sha256sum b.csv >b.csv.sha256"')
    assert installed.run(f"{as_uploader} 'ls /var/lib/verifyd'").returncode != 0
    installed.do("echo VERIFYD_DROP_WAIT=sha256 >>/etc/verifyd/verifyd.env")
    installed.do("systemctl start verifyd-import")
    found = installed.do("cd /srv/upload; find . -type f").split()
    files = ("loaded/a.csv", "nyc/loaded/b.csv")
    assert sorted(found) == [f"./{file}{end}" for file in files for end in ("", ".sha256")]
    loads = json.loads(installed.do("verifyd imports list --json"))
    assert [(each["register"], each["loaded"]) for each in loads] == [("nyc", 1), ("native", 1)]


def test_a_file_that_is_open_for_writing_is_detected(installed):
    """The unit's sandbox detects open files, so that they wait until they are closed (D73)."""
    path = "/var/lib/verifyd/drop/a.csv"
    installed.do(f"printf 'registration\nAB12CDE\n' >{path}; chown verifyd {path}")
    installed.do(f"systemd-run --unit=upload sh -c 'exec sleep infinity >>{path}'")
    installed.do(f"touch -d '-5 min' {path}; systemctl start verifyd-import")
    assert "a process has it open for writing" in installed.do("journalctl -u verifyd-import")
    assert json.loads(installed.do("verifyd imports list --json")) == []
    installed.do("systemctl stop upload; systemctl start verifyd-import")
    assert installed.do("cd /var/lib/verifyd/drop; find * -type f") == "loaded/a.csv\n"


def test_names_in_the_drop_are_only_names(installed):
    """A directory cannot bring its own options, and only loaded files are removed (D60)."""
    drop = "/var/lib/verifyd/drop"
    odd = ["fleet --mode replace --allow-shrink", "rdw --dry-run"]
    installed.path("/root/cars.csv").write_text("registration\nAB12CDE\nAB13CDE\n")
    installed.do("verifyd import - --register fleet <cars.csv")
    installed.path("/root/car.csv").write_text("registration\nAB14CDE\n")
    installed.do("echo '--max-rejects 5  # of the nightly file' >/etc/verifyd/imports/native")
    for name in (*odd, "native"):
        installed.do(f"install -d -o verifyd '{drop}/{name}'; cp car.csv '{drop}/{name}/a.csv'")
    installed.do(f"ln -s /etc/passwd {drop}/link.csv; touch -d '-5 min' {drop}/*/a.csv")
    assert installed.run("systemctl start verifyd-import").returncode == 1
    left = installed.do(
        f"cd {drop}; find * -name loaded -prune -o -type f -print -o -type l -print"
    )
    assert sorted(left.splitlines()) == [f"{odd[0]}/a.csv", "link.csv", f"{odd[1]}/a.csv"]
    loads = json.loads(installed.do("verifyd imports list --json"))
    assert [(each["register"], each["loaded"]) for each in loads] == [("native", 1), ("fleet", 2)]
    told = installed.do("journalctl -u verifyd-import")
    assert told.count("its name is not a register name") == len(odd)


def test_alerts_leave_the_machine(installed):
    """A failed load is sent at once, also by a setgid sendmail; failures are retried."""
    spool = "/var/spool/outgoing"
    installed.do(f"install -d -g mail -m 730 {spool}")
    # Like Postfix: only a setgid program may write to the mail queue.
    installed.do("install -g mail -m 2755 /usr/bin/tee /usr/local/sbin/queue-mail")
    sendmail = f"#!/bin/sh\nexec /usr/local/sbin/queue-mail {spool}/$$ >/dev/null\n"
    installed.path("/usr/sbin/sendmail").write_text(sendmail)
    installed.do("chmod 755 /usr/sbin/sendmail")
    script = "/usr/local/bin/alert"
    installed.path(script).write_text("#!/bin/sh\n[ ! -e /var/lib/verifyd/broken ] && cat\n")
    installed.do(f"chmod 755 {script}; touch {BROKEN}; chown verifyd {BROKEN}")
    settings = installed.path("/etc/verifyd/verifyd.env")
    settings.write_text(f"{settings.read_text()}VERIFYD_NOTIFY=mailto:ops,exec:{script}\n")
    tested = installed.run("verifyd notify --test")
    assert tested.returncode == 1
    told = "test message sent to 1 of 2 destinations, through the queue and verifyd-notify.service"
    assert told in tested.stdout
    installed.do(f"rm {spool}/*; systemctl is-active verifyd-notify.path verifyd-notify.timer")
    installed.do("systemctl is-active verifyd-watch.timer; systemctl start verifyd-watch")
    assert installed.do("ls /var/lib/verifyd/notices/queue") == ""

    drop = "/var/lib/verifyd/drop"
    installed.do(
        f"echo nonsense >{drop}/a.csv; chown verifyd {drop}/a.csv; touch -d @0 {drop}/a.csv"
    )
    assert installed.run("systemctl start verifyd-import").returncode == 1
    installed.do(f"until ls {spool}/*; do sleep 0.1; done")
    mail = installed.do(f"cat {spool}/*")
    assert "a load of an unknown register failed" in mail
    assert "a.csv" in mail
    installed.do("until systemctl is-failed verifyd-notify; do sleep 0.1; done")
    assert installed.do("ls /var/lib/verifyd/notices/queue").count(".json") == 1

    installed.do(
        f'rm {BROKEN}; sed -i \'s/"tried_at":[0-9]*/"tried_at":0/\' '
        "/var/lib/verifyd/notices/queue/*"
    )
    installed.do("systemctl start verifyd-notify")
    assert installed.do("ls /var/lib/verifyd/notices/queue") == ""
    assert installed.do(f"ls {spool}").count("\n") == 1
    warnings = installed.do(f"{ASKED} http://localhost/readyz")
    assert "A load of an unknown register failed" in warnings
    # The alert ends when files of the same name are loaded.
    installed.do(f"printf 'registration\\nAB12CDE\\n' >{drop}/a.csv; chown verifyd {drop}/a.csv")
    installed.do(f"touch -d @0 {drop}/a.csv; systemctl start verifyd-import verifyd-backup")
    installed.do(f"until [ $(ls {spool} | wc -l) = 2 ]; do sleep 0.1; done")
    assert "solved" in installed.do(f"cat {spool}/*")
    assert '"warnings":[]' in installed.do(f"{ASKED} http://localhost/readyz")
    assert "verifyd_backup_size_bytes" in installed.do(f"{ASKED} http://localhost/metrics")


def test_a_socket_of_the_services_own_is_not_for_everybody(installed):
    """Its user and the named group can connect; `check` says which groups are possible."""
    installed.do("install -d -o verifyd /run/open")
    serve = "VERIFYD_BIND=unix:/run/open/socket VERIFYD_SOCKET_GROUP=www-data verifyd"
    refused = installed.run(f"{serve} check")
    assert (refused.returncode, "is not in group" in refused.stderr) == (1, True)
    missing = installed.run("VERIFYD_SOCKET_GROUP=nobodys verifyd check")
    assert "VERIFYD_SOCKET_GROUP: must be a group of this host" in missing.stderr
    installed.do("usermod -aG www-data verifyd")
    installed.do(f"{serve} check; ({serve} serve >/dev/null 2>&1 & echo $! >pid)")
    installed.do("verifyd check --ready unix:/run/open/socket")
    assert installed.do("stat -c '%a %U %G' /run/open/socket") == "660 verifyd www-data\n"
    statuses = {}
    for user in ("verifyd", "www-data", "daemon"):
        ask = f"setpriv --reuid={user} --regid={user} --clear-groups curl -sS"
        asked = installed.run(f"{ask} --unix-socket /run/open/socket http://localhost/metrics")
        statuses[user] = asked.returncode
    assert statuses == {"verifyd": 0, "www-data": 0, "daemon": 7}  # 7: not connected.
    installed.do("kill $(cat pid)")


def test_a_request_id_is_a_proxys_only(installed):
    """A well-formed id is accepted on the socket, and ignored at an address (D7)."""
    given = "5f0c6a9e2b7d4c1f8a3e9d6b0c2f4a71"
    answered = f"{ASKED} -D - -o /dev/null http://localhost/healthz -H X-Request-ID:"
    assert f"x-request-id: {given}" in installed.do(f"{answered}{given}")
    assert "AB12CDE" not in installed.do(f"{answered}AB12CDE")
    installed.do("(VERIFYD_BIND=127.0.0.1:8001 verifyd serve >log 2>&1 & echo $! >pid)")
    installed.do("verifyd check --ready 127.0.0.1:8001")
    address = "curl -sS -D - -o /dev/null http://127.0.0.1:8001/nothing -H X-Request-ID:"
    assert given not in installed.do(f"{address}{given}")
    assert "AB12CDE" not in installed.do(f"{address}AB12CDE")
    installed.do("kill $(cat pid)")
    assert "AB12CDE" not in installed.do("cat log; journalctl --no-pager")


def test_wrong_settings_are_reported_and_can_be_fixed(installed):
    """The service waits until the settings are fixed, and no connection is refused meanwhile."""
    settings = installed.path("/etc/verifyd/verifyd.env")
    right = settings.read_text()
    settings.write_text(f"{right}\n; a note\nexport VERIFYD_WORKERS=3\n")
    line = right.count("\n") + 3
    assert f"line {line}: it must be NAME=VALUE" in installed.run("verifyd check").stderr
    settings.write_text(f"{right}VERIFYD_WORKERS=many\n")
    assert "VERIFYD_WORKERS: must be" in installed.run("verifyd check").stderr
    installed.do("echo '# of a later release' >>deploy/nginx/verifyd.conf")
    ended = installed.run("deploy/install.sh --binary verifyd")
    assert (ended.returncode, "nothing was changed" in ended.stderr) == (1, True)
    assert "later" not in installed.do("cat /etc/nginx/sites-available/*")
    installed.do("systemctl restart verifyd")
    installed.do(f"({ASKED} http://localhost/healthz; echo) >answer 2>&1 &")
    told = "journalctl -u verifyd | grep -c VERIFYD_WORKERS"
    installed.do(f"until [ $({told}) -gt {RESTARTS_ALLOWED} ]; do sleep 0.1; done")
    assert installed.do("systemctl is-active verifyd.socket; cat answer") == "active\n"
    settings.write_text(right)
    assert '"status":"ok"' in installed.do("until [ -s answer ]; do sleep 0.1; done; cat answer")


def test_the_database_url_is_a_credential(installed):
    """The URL is not in the settings but in a file of root, and in no list of processes."""
    url = "sqlite:////var/lib/verifyd/hidden.db"
    settings = installed.path("/etc/verifyd/verifyd.env")
    settings.write_text(re.sub("(?m)^VERIFYD_DATABASE_URL=.*\n", "", settings.read_text()))
    told = installed.run("verifyd migrate").stderr
    assert "VERIFYD_DATABASE_URL is not in /etc/verifyd/verifyd.env, and /etc/credstore/" in told
    installed.do(f"echo {url} | install -m 600 /dev/stdin /etc/credstore/verifyd.database_url")
    installed.do("verifyd migrate; verifyd check; systemctl restart verifyd")
    installed.do("verifyd check --ready unix:/run/verifyd.sock")
    assert installed.do("ls -l /proc/[0-9]*/fd | grep hidden.db || true") != ""
    seen = installed.do("cat /proc/[0-9]*/cmdline; systemctl show verifyd; journalctl")
    assert "hidden.db" not in seen


def test_settings_of_an_earlier_release_need_no_additions(installed):
    """Without newer settings, and with the URL as a credential, alerts arrive.

    While an alert waits, the unit that delivers has failed, and only its timer starts it.
    """
    settings = installed.path("/etc/verifyd/verifyd.env")
    script = installed.path("/usr/local/bin/alert")
    script.write_text(f"#!/bin/sh\n[ ! -e {BROKEN} ] && cat >>/var/lib/verifyd/got\n")
    installed.do(f"chmod 755 /usr/local/bin/alert; install -o verifyd /dev/null {BROKEN}")
    settings.write_text(
        "VERIFYD_STATE_DIR=/run/verifyd\nVERIFYD_NOTIFY=exec:/usr/local/bin/alert\n"
    )
    url = "sqlite:////var/lib/verifyd/verifyd.db"
    installed.do(f"echo {url} | install -m 600 /dev/stdin /etc/credstore/verifyd.database_url")
    installed.do("install -g verifyd -m 640 /dev/null /etc/verifyd/tls/fullchain.pem")
    installed.do("verifyd check; systemctl restart verifyd")
    assert "is not a certificate in PEM" in installed.do("verifyd check")
    ready = installed.do(f"{ASKED} http://localhost/readyz")
    assert "is not a certificate in PEM" in ready

    drop, queue = "/var/lib/verifyd/drop", "/var/lib/verifyd/notices/queue"
    installed.do(f"printf 'registration,insured\nAB12CDE,maybe\n' >{drop}/a.csv")
    installed.do(f"chown verifyd {drop}/a.csv; touch -d @0 {drop}/a.csv")
    assert installed.run("systemctl start verifyd-import").returncode == 1
    assert installed.do("ls /var/lib/verifyd/rejects") != ""
    installed.do("until systemctl is-failed verifyd-notify; do sleep 0.1; done")
    started = "systemctl start verifyd-notify"
    assert installed.run(started).returncode == 1  # Nothing is due, so the unit is still failed.
    told = installed.do("journalctl -o cat -u verifyd-notify | grep -c 'not delivered to'")
    assert (installed.do(f"ls {queue}").count("\n"), told) == (1, "1\n")
    before = "journalctl -o cat -u verifyd-notify | grep -c 'Starting verifyd'"
    assert int(installed.do(before)) <= 3  # Starts by the path, by us, and perhaps by the timer.

    installed.do(f'rm {BROKEN}; sed -i \'s/"tried_at":[0-9]*/"tried_at":0/\' {queue}/*')
    installed.do(f"{started}; {started}")  # The second start is skipped because the queue is empty.
    assert "verifyd.alert" in installed.do("cat /var/lib/verifyd/got")
    assert installed.run("systemctl is-failed verifyd-notify").stdout == "inactive\n"
    assert not {"notices", "rejects"} & set(installed.do("ls /run/verifyd").split())


@pytest.fixture
def behind_nginx(installed) -> Machine:
    """A machine with nginx and the shipped site in front of the service."""
    installed.do("install -m 600 privkey.pem /etc/verifyd/tls/")
    installed.do("install -g verifyd -m 640 fullchain.pem /etc/verifyd/tls/")
    installed.do("rm -f /etc/nginx/sites-enabled/default")
    installed.do("ln -sf ../sites-available/verifyd.conf /etc/nginx/sites-enabled/")
    assert "[warn]" not in installed.run("nginx -t").stderr
    installed.do("systemctl reload nginx")
    installed.do("until curl -sSk https://localhost/healthz; do sleep 0.1; done")
    return installed


def test_nginxs_own_answers(behind_nginx):
    """Debian's nginx speaks HTTP/2, and its own answers look like the service's."""
    asked = "curl -sSk -i"
    for options, path, status, found in (
        ("", "/problem", 404, '"code":"not_found"'),
        ("", "/metrics", 200, "verifyd_"),
        ("-X TRACE", "/api/domains", 405, "allow: GET, HEAD, POST, OPTIONS"),
        ("-X AQUAVIT", "/healthz", 405, '"code":"method_not_allowed"'),
        ("", "/$(printf %08180d 0)", 414, '"code":"uri_too_long"'),
        ("--http1.1", "/$(printf %09000d 0)", 414, '"code":"uri_too_long"'),
    ):
        answer = behind_nginx.do(f"{asked} {options} https://localhost{path}")
        version = "1.1" if "1.1" in options else "2"
        assert answer.startswith(f"HTTP/{version} {status}")
        assert found in answer
        lower = answer.lower()
        assert lower.count("strict-transport-security: max-age=31536000") == 1
        assert lower.count("x-content-type-options: nosniff") == 1
    methods = re.findall('"method":"(.*?)"', behind_nginx.do("cat /var/log/nginx/verifyd.log"))
    assert {"GET", "TRACE", "(other)"} == set(methods)


def served_certificate(machine: Machine) -> str:
    """Return the certificate that nginx serves."""
    words = "import ssl; print(ssl.get_server_certificate(('127.0.0.1', 443)))"
    shown = machine.beside(sys.executable, "-c", words)
    ended = subprocess.run(shown, capture_output=True, text=True, check=True)
    return ended.stdout.strip()


def test_a_renewed_certificate_is_taken_or_the_former_stays(behind_nginx, tmp_path):
    """The hook runs as certbot runs it; a certificate that nginx refuses is rolled back."""
    machine, hook = behind_nginx, "/opt/verifyd/current/certificate.sh"
    renewed = machine.path("/root/live")
    renewed.mkdir()
    for made, name in (("fullchain.pem", "fullchain.pem"), ("key.pem", "privkey.pem")):
        make_certificate(tmp_path)
        shutil.copy(tmp_path / made, renewed / name)
    before = served_certificate(machine)
    refused = machine.run(f"RENEWED_LINEAGE=/root/live {hook}")  # another certificate's key
    assert (refused.returncode, "key values mismatch" in refused.stderr) == (1, True)
    assert "was not reloaded" in refused.stderr
    (renewed / "privkey.pem").unlink()
    assert "/root/live/privkey.pem does not exist" in machine.run(f"{hook} /root/live").stderr
    machine.do("systemctl reload nginx")
    assert served_certificate(machine) == before

    make_certificate(tmp_path)
    shutil.copy(tmp_path / "fullchain.pem", renewed / "fullchain.pem")
    shutil.copy(tmp_path / "key.pem", renewed / "privkey.pem")
    machine.do(f"RENEWED_LINEAGE=/root/live {hook}")
    expected = (tmp_path / "fullchain.pem").read_text().strip()
    until(lambda: served_certificate(machine) == expected, "nginx to serve the new certificate")
    # The service reads the date of the certificate, and never its key.
    assert machine.do("stat -c '%n %G %a' /etc/verifyd/tls/*").splitlines() == [
        "/etc/verifyd/tls/fullchain.pem verifyd 640",
        "/etc/verifyd/tls/privkey.pem root 600",
    ]
    assert "nginx serves the certificate" in machine.do(hook)
    machine.do("systemctl stop nginx")
    assert "nginx does not run" in machine.do(f"{hook} /root/live")


def test_uninstalling_keeps_the_data_and_purging_leaves_nothing(machine):
    """A new installation serves the kept data; a purge removes everything."""
    names = "find /etc /opt /run /usr /var -xdev ! -path '/var/log/journal/*' | sort"
    before = set(machine.do(names).splitlines())
    machine.do("deploy/install.sh --binary verifyd")
    machine.do("install -m 600 fullchain.pem privkey.pem /etc/verifyd/tls/")
    machine.do("ln -sf ../sites-available/verifyd.conf /etc/nginx/sites-enabled/")
    machine.do("systemctl reload nginx; systemctl start verifyd-backup")
    machine.do("until curl -sSk https://localhost/healthz; do sleep 0.1; done")
    (key,) = re.findall(
        r"vfd_\w+", machine.do("verifyd accounts create acme; verifyd keys create acme")
    )
    install = "/opt/verifyd/current/install.sh"

    assert "removed; /var/lib/verifyd, /etc/verifyd" in machine.do(f"{install} --uninstall")
    machine.do("while curl -sSk https://localhost/healthz; do sleep 0.1; done")
    assert machine.do("pgrep -u verifyd; systemctl list-units --all --plain -q 'verifyd*'") == ""
    assert machine.do("systemctl list-unit-files --plain -q 'verifyd*' || true") == ""
    assert machine.do("nginx -t; systemctl is-active nginx") == "active\n"
    assert machine.do("deploy/install.sh --uninstall")

    machine.do("deploy/install.sh --binary verifyd")
    asked = f"{ASKED} -H 'X-API-Key: {key}' http://localhost/api/domains"
    assert '"domains":[]' in machine.do(asked)

    refused = machine.run(f"{install} --uninstall --purge")
    assert (refused.returncode, "with --yes" in refused.stderr) == (1, True)
    assert '"domains":[]' in machine.do(asked)
    machine.do(f"{install} --uninstall --purge --yes")
    assert machine.run("id verifyd; getent group verifyd").stdout == ""
    left = set(machine.do(names).splitlines()) - before
    assert [name for name in left if "verifyd" in name] == []
    assert {name for name in left if not name.startswith(("/run/", "/var/l"))} <= ACCOUNT_COPIES


def test_slow_clients_cost_nginx_little_memory(behind_nginx):
    """A thousand slow clients use less than 100 MB; their bodies are in unnamed files."""
    machine = behind_nginx

    def memory_kilobytes() -> int:
        masters_and_workers = "grep -lx nginx /proc/[0-9]*/comm | sed s/comm/smaps_rollup/"
        told = machine.run(f"cat $({masters_and_workers})").stdout
        return sum(map(int, re.findall(r"(?m)^Pss: +(\d+)", told)))

    def all_are_held() -> bool:
        opened = machine.run("ls -l /proc/[0-9]*/fd").stdout
        return len(re.findall(r"/var/lib/nginx/body/\d+ \(deleted\)", opened)) == CLIENTS

    block = first_block("deploy/docs/install.md", "What nginx does with slow clients")
    machine.do(f"set -e\n{block}")
    machine.do("until curl -sSkf https://localhost/healthz; do sleep 0.1; done")
    before = memory_kilobytes()
    words = [sys.executable, "-m", "tests.system.slow_clients", "tls:127.0.0.1:443"]
    with subprocess.Popen(machine.beside(*words), cwd=ROOT, stdin=subprocess.PIPE) as holding:
        try:
            until(all_are_held, "nginx to hold all bodies")
            assert memory_kilobytes() - before < 100_000
            assert machine.do("find /var/lib/nginx -type f") == ""
            machine.do("curl -sSkf https://localhost/healthz")
        finally:
            holding.kill()


@pytest.fixture(scope="module")
def next_binary(tmp_path_factory) -> Path:
    """The binary of a later release, with a further migration."""
    tree = copy_tree(tmp_path_factory.mktemp("next") / "tree")
    schema = program_schema() + 1
    script = tree / "app" / "storage" / "migrations" / "main" / f"{schema:04}_further.py"
    script.write_text(NEXT_MIGRATION.format(schema=schema, then=""))
    settings = tree / "app" / "config.py"
    before = "    def __post_init__("
    settings.write_text(settings.read_text().replace(before, SETTING + before))
    startup = tree / "app" / "server.py"
    text = startup.read_text()
    assert text.count("def prepare_state(") == 1
    startup.write_text(text.replace("def prepare_state(", "def _prepare_state(") + REFUSAL)
    version = tree / "app" / "version.py"
    version.write_text(re.sub('VERSION = ".*"', 'VERSION = "99.0.0"', version.read_text()))
    return built(tree)


@pytest.fixture(scope="module")
def oldest(tmp_path_factory) -> Path:
    """The sources of the oldest release that can use this program's database (D29)."""
    script = max((ROOT / "app" / "storage" / "migrations" / "main").glob("0*.py"))
    (schema,) = re.findall(r"oldest_program = (\d+)", script.read_text())
    commit = last_commit_at(max(int(schema), FIRST_INSTALLED))
    return tree_of_commit(tmp_path_factory.mktemp("oldest") / "tree", commit)


def test_the_oldest_release_is_gone_back_to(machine, binary, oldest):
    """With settings that nobody edited, an upgrade from it and the way back succeed."""
    bring(machine, built(oldest), "old", oldest)
    machine.do("deploy/install.sh --binary old")
    machine.do("verifyd accounts create acme")
    (key,) = re.findall(r"vfd_\w+", machine.do("verifyd keys create acme"))
    former = machine.do(f"cat {SETTINGS}")
    listed = f"{ASKED} -H 'Authorization: Bearer {key}' http://x/api/domains"
    bring(machine, binary)
    machine.do("deploy/install.sh --binary verifyd")
    assert machine.do(f"cat {SETTINGS}") == (ROOT / "deploy" / "verifyd.env.example").read_text()
    assert '"domains":[]' in machine.do(listed)
    machine.do("/opt/verifyd/previous/install.sh")
    assert f'"program": {FIRST_INSTALLED}' in machine.do("verifyd migrate --status --json")
    assert machine.do(f"cat {SETTINGS}") == former
    assert '"domains":[]' in machine.do(listed)
    machine.do("deploy/install.sh --binary verifyd")
    assert '"domains":[]' in machine.do(listed)


def test_going_back_names_new_settings(installed, next_binary):
    """A release refuses settings that it does not know before it changes anything."""
    machine = installed
    bring(machine, next_binary, "next")
    machine.do("deploy/install.sh --binary next")
    machine.do(f"printf '\\nVERIFYD_FURTHER=secret\\n' >>{SETTINGS}")
    line = int(machine.do(f"wc -l <{SETTINGS}"))
    refused = machine.run("/opt/verifyd/previous/install.sh")
    assert refused.returncode == 1
    assert f"comment out line {line} of {SETTINGS}: " in refused.stderr
    assert "secret" not in refused.stdout + refused.stderr
    assert "99.0.0" in machine.do("verifyd version")
    machine.do(f"sed -i '{line}s/^/#/' {SETTINGS}; cp {SETTINGS} edited")
    machine.do("/opt/verifyd/previous/install.sh")
    assert "99.0.0" not in machine.do("verifyd version")
    machine.do(f"cmp edited {SETTINGS}")


def test_an_upgrade_and_the_way_back_under_load(installed, next_binary, tmp_path):
    """A release that does not serve is rolled back, a good one stays, and no request fails."""
    machine = installed
    limits = f"--requests {ENOUGH} --window 60 --bulk-max 1 --domains-max {ENOUGH}"
    machine.do(f"verifyd plans set standard {limits}; verifyd accounts create acme")
    (key,) = re.findall(r"vfd_\w+", machine.do("verifyd keys create acme"))
    bring(machine, next_binary, "next")
    socket = machine.path("/run/verifyd.sock")
    with behind_site(f"unix:{socket}", tmp_path) as site, Creators(site, [key]) as creators:
        creators.wait_for(8)
        machine.do(f"touch {BROKEN}")
        ended = machine.run("deploy/install.sh --binary next")
        assert ended.returncode == 1
        assert "the previous release serves again" in ended.stderr
        assert "99.0.0" not in machine.do("verifyd version")
        assert f'"database": {program_schema() + 1}' in machine.do(
            "verifyd migrate --status --json"
        )
        creators.wait_for(8)

        machine.do(f"rm {BROKEN}")
        assert re.search(
            r"99\.0\.0( \([0-9a-f]{12}\))? is installed in /opt/verifyd/releases/99\.0\.0-",
            machine.do("deploy/install.sh --binary next"),
        )
        assert "99.0.0" in machine.do("verifyd version")
        creators.wait_for(8)

        machine.do("/opt/verifyd/previous/install.sh")
        assert "99.0.0" not in machine.do("verifyd version")
        creators.wait_for(8)

        # A release that did not serve is not the previous one.
        machine.do("echo '# of the broken release' >>deploy/README.md")
        machine.do(f"touch {BROKEN}")
        assert machine.run("deploy/install.sh --binary next").returncode == 1
        assert "99.0.0" in machine.do("/opt/verifyd/previous/verifyd version")
        assert "of the broken release" not in machine.do("cat /opt/verifyd/previous/README.md")
        creators.wait_for(8)
    assert creators.statuses("POST") == {201}
    assert creators.statuses("GET") == {200}
    assert len(machine.do("ls /var/lib/verifyd/backups").split()) == 4
    assert "replaced" not in machine.do("ls /var/lib/verifyd")
