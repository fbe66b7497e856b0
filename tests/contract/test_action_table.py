"""The page describes every action of the record, and every member (D130)."""

from app.actions import ACTIONS
from app.cli.actions import RECORDED
from tests.contract.pages import quoted, table
from tests.unit.test_help import LEAVES


def test_the_table_of_actions_is_complete():
    """The table has exactly the actions, in the program's order."""
    assert [quoted(row[0])[0] for row in table("Action")] == list(ACTIONS)


def test_each_action_names_its_command():
    """The command of a row exists."""
    for row in table("Action"):
        assert tuple(quoted(row[1])[0].split()[1:]) in LEAVES, row


def test_the_table_of_members_is_complete():
    """The table has exactly the members that `--json` prints, in their order."""
    told = [name for row in table("Member of an action") for name in quoted(row[0])]
    assert told == RECORDED.members
