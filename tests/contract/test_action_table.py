"""The page describes every action of the record, and every member (D130)."""

from app.actions import ACTIONS
from app.cli.actions import RECORDED
from tests.contract.pages import quoted, table
from tests.unit.test_help import LEAVES


def test_the_table_of_actions_is_complete():
    """The table has exactly the actions, in the program's order."""
    told = [name for row in table("Action") for name in quoted(row[0])]
    assert told == list(ACTIONS)


def test_each_action_names_its_command():
    """The command of each action exists; a row of several has the commands of their names."""
    for row in table("Action"):
        names = quoted(row[0])
        assert tuple(quoted(row[1])[0].split()[1:]) in LEAVES, row
        if len(names) > 1:
            assert row[1].startswith("the command of the same name, such as "), row
            assert {tuple(name.split(".")) for name in names} <= set(LEAVES), row


def test_the_table_of_members_is_complete():
    """The table has exactly the members that `--json` prints, in their order."""
    told = [name for row in table("Member of an action") for name in quoted(row[0])]
    assert told == RECORDED.members
