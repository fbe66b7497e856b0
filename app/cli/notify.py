"""`verifyd notify`, `watch` and `report`: deliver alerts, find problems, and sum up the night."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from app import clock
from app.alerts.delivery import TEST_SECONDS, deliver, send_to_all, test_through_queue
from app.alerts.digests import send_digests
from app.alerts.message import Condition, Message, test_message
from app.alerts.morning import composed_report, send
from app.alerts.report import report
from app.alerts.spool import SendResult, Spool
from app.arguments import OneOf, flag
from app.cli.output import Table, print_item, waiting_for
from app.cli.parser import Group
from app.config import SETTINGS, Config, ConfigError, setting_fault
from app.errors import OperatorError
from app.jobs.job import gathered_now
from app.logs import progress_log
from app.storage.session import opened_database, require_owner
from app.text import counted

_NEEDED = ("data_dir", "audit_dir", "audit_digests", "notify", "notify_secret")


UNIT = Path("/etc/systemd/system/paths.target.wants/verifyd-notify.path")
"""Is there while the unit that delivers queued alerts is enabled."""
_SYSTEMD, _DATA_DIR = Path("/run/systemd/system"), Path("/var/lib/verifyd")
commands = Group()
OUTCOMES = Table[SendResult]("destination outcome reason")
PROBLEMS = Table[Condition]("key problem remedy", problem=lambda each: each.warning)


@commands.command(
    "notify",
    "deliver queued alerts and digests of the audit trail, or test the delivery",
    OneOf(
        flag("--deliver", "deliver the queued alerts that are due, and the latest digest"),
        flag("--test", "send a test message to each destination now"),
        required=True,
    ),
    examples=["notify --test", "notify --deliver"],
)
def _notify(args: argparse.Namespace) -> None:
    args.is_job = args.deliver
    config, wrong = Config.read()  # Only faults of settings that alerts need are an error.
    _require_deliverable(wrong)
    require_owner(config)
    if args.test:
        _test(args, config)
        return
    with progress_log():
        try:
            # First, because the commands of many alerts can take until the unit is stopped.
            are_sent = send_digests(config)
        finally:
            is_well = deliver(config)
    faults = []
    if not is_well:
        faults.append(
            "not every alert is delivered; the log of each attempt says why, and each is tried "
            "again for 4 days"
        )
    if not are_sent:
        faults.append(
            "not every destination has a digest of the audit trail; the log of each attempt says "
            "why, and the latest is tried again"
        )
    if faults:
        raise OperatorError("\n".join(faults))
    if not args.json:
        print("no alert is waiting")


def _test(args: argparse.Namespace, config: Config) -> None:
    if not (config.notify or config.audit_digests):
        raise OperatorError(f"{SETTINGS['notify'].variable} names no destination; set it first")
    message = test_message()
    way = "by this command, because no unit of systemd delivers here"
    with waiting_for(args, "the destinations to take a test message"):
        if _has_unit(config):
            way = "through the queue and verifyd-notify.service, as alerts are"
            outcomes = _sent_by_unit(config, message)
        else:
            outcomes = send_to_all(config, message)
    failed = sum(each.outcome == "failed" for each in outcomes)
    destinations = counted(len(outcomes), "destination")
    sentence = f"test message sent to {len(outcomes) - failed} of {destinations}, {way}"
    OUTCOMES.print_list(args, outcomes, sentence)
    faults = []
    try:
        Spool(config.data_dir).try_out()
    except OSError as error:
        faults.append(_fault_of_queue(config, error))
    if failed:
        faults.append(f"the test message failed at {failed} of {destinations}")
    if faults:
        raise OperatorError("\n".join(faults))


def _fault_of_queue(config: Config, error: OSError) -> str:
    fault = f"no alert can be queued in {config.data_dir}: {error.strerror}"
    return setting_fault("data_dir", fault)


def _has_unit(config: Config) -> bool:
    """Tell whether systemd delivers what this process queues."""
    return _SYSTEMD.is_dir() and UNIT.exists() and config.data_dir == _DATA_DIR


def _sent_by_unit(config: Config, message: Message) -> list[SendResult]:
    """Return what came of a test message in the unit. Raises OperatorError."""
    try:
        outcomes = test_through_queue(config, message)
    except OSError as error:
        raise OperatorError(_fault_of_queue(config, error)) from error
    if outcomes is None:
        raise OperatorError(
            f"the unit has not sent the test message within {TEST_SECONDS} s; see "
            '"systemctl status verifyd-notify.path verifyd-notify.service"'
        )
    return outcomes


@commands.command(
    "watch",
    "report what is wrong now, and queue an alert about what is new",
    examples=["watch", "watch --json"],
    is_job=True,
)
def _watch(args: argparse.Namespace) -> None:
    config, wrong = Config.read()  # Wrong settings are reported like other problems.
    require_owner(config)
    with progress_log():
        found, message = report(config, lambda: gathered_now(config, wrong))
    problems = [PROBLEMS.item(each) for each in found.conditions]
    members = {"problems": problems, "message": message and message.id}
    print_item(args, members, text=_lines(found.conditions, message))
    _require_deliverable(wrong)


def _lines(conditions: Sequence[Condition], message: Message | None) -> Iterator[str]:
    for each in conditions:
        yield f"{each.warning}\n    {each.remedy}"
    found = counted(len(conditions), "problem") if conditions else "nothing is wrong"
    yield f"{found}; queued: {message.subject}" if message else found


@commands.command(
    "report",
    "show the morning report, or send it",
    flag("--send", "send it, if VERIFYD_MORNING_REPORT is on and no host has just sent it"),
    examples=["report", "report --send"],
)
def _report(args: argparse.Namespace) -> None:
    args.is_job = args.send
    config, wrong = Config.read()  # Other wrong settings are reported.
    _require_deliverable(wrong, "morning_report", "database_url", "timezone")
    if not args.send:
        with opened_database(config) as engine:
            message = composed_report(engine, config, wrong)
        print_item(
            args, {"subject": message.subject, "text": message.text}, text=message.text.splitlines()
        )
        return
    queued, reason = None, f"{SETTINGS['morning_report'].variable} is off"
    if config.morning_report:
        if not config.notify:
            raise OperatorError(f"{SETTINGS['notify'].variable} names no destination")
        with progress_log(), opened_database(config) as engine:
            sent = send(engine, config, wrong)
        if isinstance(sent, Message):
            queued, reason = sent.id, f"queued: {sent.subject}"
        else:
            reason = f"{sent.host} sent it at {clock.iso_utc(sent.started_at)}"
    print_item(args, {"message": queued, "reason": reason}, text=[reason])


def _require_deliverable(wrong: Sequence[str], *others: str) -> None:
    """Raise ConfigError if a setting that the delivery of alerts needs, or another, is wrong."""
    needed = tuple(f"{SETTINGS[name].variable}:" for name in (*_NEEDED, *others))
    faults = [fault for fault in wrong if fault.startswith(needed)]
    if faults:
        raise ConfigError(faults)
