"""`verifyd imports rollback`, `drop` and `undrop`: questions, output, refusals (D72)."""

import io
import sys

import pytest

HEADER = "registration,make"


def load(cli, *, register: str = "native", make: str = "FORD", mode: str = "merge"):
    """Load one vehicle into a register."""
    file = cli.file("vehicles.csv", HEADER, f"AB12CDE,{make}")
    return cli.json("import", file, "--register", register, "--mode", mode)


@pytest.fixture
def answering(monkeypatch):
    """`answering(TEXT)` types a line at a terminal."""

    def answer(text: str) -> None:
        terminal = io.StringIO(f"{text}\n")
        monkeypatch.setattr(terminal, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", terminal)

    return answer


class TestDrop:
    def test_a_register_is_dropped_and_brought_back(self, cli):
        """The history stays, and the output says how to undo the drop or free the space."""
        load(cli, register="fleet")
        assert cli.json("imports", "drop", "fleet", "--yes") == {
            "dropped": "fleet",
            "disk_space": 'not freed yet; free it with "verifyd imports drop fleet --purge"',
            "undo": "verifyd imports undrop fleet",
        }
        assert cli.json("imports", "undrop", "fleet") == {
            "undropped": "fleet",
            "vehicles": 1,
            "policies": 0,
            "fines": 0,
        }
        assert load(cli, register="fleet")["changed"] == 0
        modes = [line["mode"] for line in cli.json("imports", "list")]
        assert modes == ["merge", "undrop", "drop", "merge"]

    def test_it_ends_with_a_sentence(self, cli):
        """Which names the register, and how to undo a drop; nothing is logged beside it."""
        load(cli)
        for words, sentence in (
            (("drop", "native", "--yes"), "register native dropped; bring it back with "),
            (("undrop", "native"), "register native (1 vehicles, 0 policies, 0 fines) is back"),
            (("drop", "native", "--yes", "--purge"), "register native removed for good"),
        ):
            ended = cli.run("imports", *words)
            assert (ended.status, ended.stderr, ended.log) == (0, "", [])
            assert ended.stdout.splitlines()[-1].startswith(sentence)

    def test_its_space_can_be_freed_later(self, cli):
        """A purge removes everything that was kept, and the drop can no longer be undone."""
        load(cli, register="fleet")
        cli.json("imports", "drop", "fleet", "--yes")
        purged = {"dropped": "fleet", "disk_space": "freed", "undo": None}
        assert cli.json("imports", "drop", "fleet", "--yes", "--purge") == purged
        assert list(cli.directory.glob("*register_fleet*.db*")) == []
        assert "it does not exist" in cli.refusal("imports", "undrop", "fleet")
        assert load(cli, register="fleet")["changed"] == 1

    def test_its_space_can_be_freed_at_once(self, cli):
        """`drop --purge` adds both steps to the history."""
        load(cli)
        cli.json("imports", "drop", "native", "--yes", "--purge")
        assert list(cli.directory.glob("*register_native*.db*")) == []
        modes = [line["mode"] for line in cli.json("imports", "list")]
        assert modes == ["purge", "drop", "merge"]

    @pytest.mark.parametrize("more", [(), ("--purge",)])
    def test_without_a_terminal_it_must_be_confirmed(self, cli, monkeypatch, more):
        """Without a terminal nobody can answer; the message names the option to add."""
        load(cli)
        monkeypatch.setattr(sys, "stdin", io.StringIO("y\n"))
        refusal = cli.refusal("imports", "drop", "native", *more)
        assert refusal == "nothing was changed: without a terminal, confirm with --yes\n"
        assert load(cli)["changed"] == 0

    @pytest.mark.parametrize("answer", ["", "n", "no", "yess"])
    def test_only_a_yes_drops_it(self, cli, answering, answer):
        """Any other answer changes nothing; the question says what the register holds."""
        load(cli)
        answering(answer)
        asked = "Drop the register native (1 vehicles, 0 policies, 0 fines)? [y/N] "
        assert cli.refusal("imports", "drop", "native") == f"{asked}nothing was changed\n"
        assert load(cli)["changed"] == 0

    @pytest.mark.parametrize("answer", ["y", "YES"])
    def test_a_yes_does(self, cli, answering, answer):
        """The answer's case does not matter; before a purge the question says that it is final."""
        load(cli)
        answering(answer)
        assert cli.run("imports", "drop", "native").status == 0
        answering(answer)
        purged = cli.run("imports", "drop", "native", "--purge")
        assert (purged.status, "for good? [y/N]" in purged.stderr) == (0, True)

    def test_a_purge_ends_the_warning_about_a_mistyped_register(self, cli, answering):
        """It clears the warning of loads that never succeed; an unknown register stays refused."""
        bad = cli.directory / "bad.csv"
        bad.write_text("registration,make\n!!!,FORD\n")
        assert cli.run("import", bad, "--register", "nativ").status == 1
        warning = "The last load of the register nativ failed"
        assert warning in cli.run("check").stdout
        refusal = cli.refusal("imports", "drop", "nativ", "--yes")
        assert "there is no register nativ" in refusal
        assert "verifyd imports drop nativ --purge" in refusal
        answering("y")
        purged = cli.run("imports", "drop", "nativ", "--purge")
        assert "End the warning about its failed loads?" in purged.stderr
        assert (purged.status, warning in cli.run("check").stdout) == (0, False)
        assert "there is no register" in cli.refusal("imports", "drop", "nativ", "--purge")

    @pytest.mark.parametrize("register", ["fleet", "nativ"])
    def test_an_unknown_register_is_not_dropped(self, cli, register):
        """The refusal precedes any question, and other registers stay."""
        load(cli)
        before = sorted(cli.directory.iterdir())
        for words in (
            ("drop", register),
            ("drop", register, "--purge"),
            ("undrop", register),
            ("rollback", "--register", register),
        ):
            assert f"register {register}" in cli.refusal("imports", *words)
        assert sorted(cli.directory.iterdir()) == before
        assert load(cli)["changed"] == 0


class TestRollback:
    @pytest.fixture
    def three(self, cli, monkeypatch):
        """Load three makes in turn, with two earlier states kept."""
        monkeypatch.setenv("VERIFYD_KEEP_SNAPSHOTS", "2")
        for make in ("FORD", "SEAT", "KIA"):
            load(cli, make=make, mode="replace")
        return cli

    def test_it_goes_back_as_far_as_the_setting_says(self, three):
        """Each rollback goes back one state; the result names the load that made it."""
        for back_to in (2, 1):
            assert three.json("imports", "rollback")["load"] == back_to
        assert "no register can be rolled back" in three.refusal("imports", "rollback")

    def test_it_goes_back_to_a_load(self, three):
        """`--to` goes back several states at once."""
        assert three.json("imports", "rollback", "--to", "1")["load"] == 1

    def test_a_refusal_lists_the_possible_loads(self, three):
        """The refusal lists the loads that the register can go back to."""
        told = three.refusal("imports", "rollback", "--to", "7")
        assert "load 2 of" in told
        assert "load 1 of" in told
        assert three.misuse("imports", "rollback", "--to", "first")
