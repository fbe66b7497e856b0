"""`verifyd notify` and `verifyd watch`: deliver alerts, and find what is wrong (D76 to D78)."""

import argparse
from collections.abc import Mapping, Sequence

from app.alerts.delivery import deliver, send_to_all
from app.alerts.message import Message, test_message
from app.alerts.report import report
from app.alerts.spool import Spool, new_id
from app.cli.output import counted, print_item, print_items, waiting_for
from app.cli.parser import Commands, add_command
from app.config import SETTINGS, Config, ConfigError
from app.errors import OperatorError
from app.jobs.job import gathered_now
from app.logs import progress_log
from app.setting_values import sqlite_path
from app.storage.session import require_owner

_NEEDED = ("data_dir", "notify", "notify_secret")


def add_commands(commands: Commands) -> None:
    """Add the two commands."""
    notify = add_command(
        commands,
        "notify",
        _notify,
        "deliver queued alerts, or test the delivery",
        examples=["notify --test", "notify --deliver"],
    )
    what = notify.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--deliver", action="store_true", help="deliver the queued alerts that are due"
    )
    what.add_argument(
        "--test", action="store_true", help="send a test message to each destination now"
    )
    add_command(
        commands,
        "watch",
        _watch,
        "report what is wrong now, and queue an alert about what is new",
        examples=["watch", "watch --json"],
        is_job=True,
    )


def _notify(args: argparse.Namespace) -> None:
    args.is_job = args.deliver
    config = _config()
    if args.test:
        _test(args, config)
        return
    with progress_log():
        is_well = deliver(config)
    if not is_well:
        raise OperatorError(
            "not every alert is delivered; the log of each attempt says why, and each is tried "
            "again for 4 days"
        )
    if not args.json:
        print("no alert is waiting")


def _test(args: argparse.Namespace, config: Config) -> None:
    if not config.notify:
        raise OperatorError(f"{SETTINGS['notify'].variable} names no destination; set it first")
    with waiting_for(args, "the destinations to take a test message"):
        outcomes = send_to_all(config, test_message(new_id()))
    items = [
        {
            "destination": each.destination,
            "outcome": "failed" if each.reason else "sent",
            "reason": each.reason,
        }
        for each in outcomes
    ]
    failed = sum(each.reason is not None for each in outcomes)
    destinations = counted(len(outcomes), "destination")
    print_items(
        args,
        items,
        ("destination", "outcome", "reason"),
        f"test message sent to {len(outcomes) - failed} of {destinations}",
    )
    faults = _queue_faults(config)
    if failed:
        faults.append(f"the test message failed at {failed} of {destinations}")
    if faults:
        raise OperatorError("\n".join(faults))


def _queue_faults(config: Config) -> list[str]:
    """Return why no alert can be queued; the test message does not go through the queue."""
    try:
        Spool(config.data_dir).try_out()
    except OSError as error:
        return [
            f"{SETTINGS['data_dir'].variable}: no alert can be queued in {config.data_dir}: "
            f"{error.strerror}"
        ]
    return []


def _watch(args: argparse.Namespace) -> None:
    config, wrong = Config.read()  # Wrong settings are reported like other problems.
    _require_owner(config)
    with progress_log():
        found, message = report(config, lambda: gathered_now(config, wrong))
    problems = [
        {"key": each.key, "problem": each.warning, "remedy": each.remedy}
        for each in found.conditions
    ]
    if args.json:
        print_item(args, {"problems": problems, "message": message and message.id})
    else:
        _print(problems, message)
    _require_deliverable(wrong)


def _print(problems: Sequence[Mapping[str, str]], message: Message | None) -> None:
    for each in problems:
        print(f"{each['problem']}\n    {each['remedy']}")
    found = counted(len(problems), "problem") if problems else "nothing is wrong"
    print(f"{found}; queued: {message.subject}" if message else found)


def _config() -> Config:
    """Return the settings. Only faults of those that alerts need are an error."""
    config, wrong = Config.read()
    _require_deliverable(wrong)
    _require_owner(config)
    return config


def _require_deliverable(wrong: Sequence[str]) -> None:
    """Raise ConfigError if a setting that the delivery of alerts needs is wrong."""
    needed = tuple(f"{SETTINGS[name].variable}:" for name in _NEEDED)
    faults = [fault for fault in wrong if fault.startswith(needed)]
    if faults:
        raise ConfigError(faults)


def _require_owner(config: Config) -> None:
    database = sqlite_path(config.database_url)
    if database:
        require_owner(database)
