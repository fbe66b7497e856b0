"""Alerts by mail with the mailers of Debian, each on a machine of its own."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.system.machine import Machine, bring
from tests.system.processes import until

pytestmark = pytest.mark.system_long

MAILBOX = "/home/ops/Maildir/new"
MAILED = f"cat {MAILBOX}/* || true"
DROP = "/var/lib/verifyd/drop"


class Mailer(NamedTuple):
    """Packages that provide a mailer, and commands so that it delivers to `MAILBOX`."""

    packages: tuple[str, ...]
    commands: str


_EXIM = (
    "sed -i s/mail_spool/maildir_home/ /etc/exim4/update-exim4.conf.conf; "
    "update-exim4.conf; systemctl restart exim4"
)
# NOTE: Debian's package msmtp-mta is this link. It excludes a server such as Exim, which is here
# what msmtp speaks to.
_MSMTP = (
    f"{_EXIM}; ln -s /usr/bin/msmtp /usr/local/sbin/sendmail; "
    "printf 'account default\nhost 127.0.0.1\nfrom verifyd@localhost\n' >/etc/msmtprc"
)
MAILERS = {
    "exim": Mailer(("exim4-daemon-light", "msmtp"), _EXIM),
    "msmtp": Mailer(("exim4-daemon-light", "msmtp"), _MSMTP),
    # In Debian 13 it does not start without the certificates that it only recommends.
    "opensmtpd": Mailer(("opensmtpd", "ca-certificates"), "systemctl restart opensmtpd"),
    "postfix": Mailer(("postfix",), "postconf -e home_mailbox=Maildir/; postfix reload"),
}


@pytest.fixture
def mailing(request, suite, binary, socket_directory) -> Iterator[Machine]:
    """A machine whose alerts go to the mailbox of a user; the parameter names its mailer."""
    mailer = MAILERS[request.param]
    with Machine(socket_directory, *mailer.packages, suite=suite) as machine:
        bring(machine, binary)
        machine.do(f"echo 127.0.0.1 localhost >/etc/hosts; useradd -m ops; {mailer.commands}")
        machine.do("deploy/install.sh --binary verifyd")
        machine.do("echo VERIFYD_NOTIFY=mailto:ops@localhost >>/etc/verifyd/verifyd.env")
        yield machine


@pytest.mark.parametrize("suite", ["bookworm", "trixie"])
@pytest.mark.parametrize("mailing", sorted(MAILERS), indirect=True)
def test_a_mailer_delivers_to_a_mailbox_in_home(mailing):
    """A test and the alert of a failed load arrive, both from the sandbox of the unit."""
    tested = mailing.do("verifyd notify --test")
    assert "sent to 1 of 1 destination, through the queue and verifyd-notify.service" in tested
    until(lambda: "This is a test." in mailing.do(MAILED), "the test message to arrive")
    mailing.do(f"echo nonsense >{DROP}/a.csv; chown verifyd {DROP}/a.csv")
    mailing.do(f"touch -d @0 {DROP}/a.csv")
    assert mailing.run("systemctl start verifyd-import").returncode == 1
    alerted = "a load of an unknown register failed"
    until(lambda: alerted in mailing.do(MAILED), "the alert to arrive")


@pytest.mark.parametrize("mailing", ["msmtp"], indirect=True)
def test_what_a_mailer_says_of_its_failure_is_the_reason(mailing):
    """If the user verifyd cannot read msmtp's configuration, its message says more than a 78.

    With the group that the page gives it, the mail is taken.
    """
    mailing.do("chmod 600 /etc/msmtprc")
    refused = mailing.run("verifyd notify --test")
    assert refused.returncode == 1
    assert "ended with 78: sendmail: account default not found: no configuration file" in (
        refused.stdout
    )
    assert mailing.do("ls /var/lib/verifyd/notices/queue") == ""
    mailing.do("chgrp verifyd /etc/msmtprc; chmod 640 /etc/msmtprc")
    assert "accepted" in mailing.do("verifyd notify --test")
