"""Decides which conditions to report to the operator, by those reported before (D77).

A condition is reported when it is new, when it happens again, once a week while it lasts, and
once when it is over. Everything that is found at one moment is one message.
"""

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from app.alerts.conditions import UNDELIVERED, FoundConditions
from app.alerts.delivery import is_past
from app.alerts.message import Alerted, Condition, Message, composed
from app.alerts.nightly import running_since
from app.alerts.spool import Spool
from app.config import Config
from app.errors import OperatorError

REMINDED_SECONDS = 7 * 86_400
_SAME_NIGHT_SECONDS = 20 * 3600
_log = logging.getLogger("verifyd.alerts")


class Reported(NamedTuple):
    """What is wrong, and the message that was queued about it."""

    found: FoundConditions
    message: Message | None = None


def report(config: Config, gather: Callable[[], FoundConditions]) -> Reported:
    """Queue a message if there is anything to report.

    Nothing is queued or remembered if `VERIFYD_NOTIFY` names no destination. Two processes that
    report at the same time queue one message. If the queue cannot be written to, that is logged:
    it must not stop a command.

    Args:
        gather: returns the conditions. It is called while no other process reports, so that
            reports are in the order in which conditions were found.
    """
    if not config.notify:
        return Reported(gather())
    found = None
    spool = Spool(config.data_dir)
    spool.prepare()
    try:
        with spool.locked():
            found = gather()
            due = _due(found, spool.alerted(), running_since(config.state_dir, "import"))
            if due is not None:
                spool.put(*due)
    except (OSError, OperatorError) as error:
        _log.error("no alert can be queued: %s", error)
        return Reported(found or gather())
    return Reported(found, due[0] if due else None)


def _due(
    found: FoundConditions, alerted: Mapping[str, Alerted], loading_since: int | None
) -> tuple[Message, dict[str, Alerted]] | None:
    """Return the message that is due, and all conditions that are reported after it."""
    problems = [
        each
        for each in found.conditions
        if each.kind != UNDELIVERED
        and _is_news(each, alerted)
        and not _will_be_reported(each, loading_since)
    ]
    current = {each.key for each in found.conditions}
    solved = {
        key: each
        for key, each in alerted.items()
        if key not in current and _is_over(key, each, found)
    }
    if not problems and not solved:
        return None
    message = composed(problems, list(solved.values()))
    known = {key: each for key, each in alerted.items() if key not in solved}
    for each in problems:
        # A problem that is reported again keeps the time of its first report.
        since = alerted.get(each.key, each).since
        known[each.key] = Alerted(each.occurrence, each.title, since, message.created_at)
    return message, known


def _is_news(condition: Condition, alerted: Mapping[str, Alerted]) -> bool:
    before = alerted.get(condition.key)
    if before is not None:
        is_reminded = is_past(before.told_at, REMINDED_SECONDS)
        return is_reminded or before.occurrence != condition.occurrence
    if condition.kind in ("stale", "unchanged"):
        # A register that is stale because its load failed is only one problem that night.
        name = condition.key.split(":")[1]
        failed = [
            alerted[key]
            for key in alerted
            if key.split(":")[:2] in (["load", name], ["held", name])
        ]
        return all(is_past(each.told_at, _SAME_NIGHT_SECONDS) for each in failed)
    return True


def _will_be_reported(condition: Condition, loading_since: int | None) -> bool:
    """Tell whether the nightly load that is running now will report a condition at its end."""
    is_of_load = condition.kind in ("load", "held")
    return is_of_load and loading_since is not None and condition.since >= loading_since


def _is_over(key: str, before: Alerted, found: FoundConditions) -> bool:
    """Tell whether a condition that was not found is over, and was looked for."""
    kind, _, name = key.partition(":")
    if kind in found.unknown:
        return False
    # A failing database may have no record of the failed run. The run that ends the condition can
    # have begun before the failed one, if that was refused because the other was running.
    return kind != "job" or found.ran_until.get(name, 0) > int(before.occurrence)
