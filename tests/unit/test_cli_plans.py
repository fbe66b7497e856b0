"""`verifyd plans`: set and delete the limits of accounts (D12)."""

import pytest

from tests.conftest import ON_SQLITE
from tests.rows import each_row

LIMITS = {"--requests": 5, "--window": 60, "--bulk-max": 10, "--domains-max": 3}


def options(**changed: object) -> list[object]:
    """Return the four limits as options, some of them changed."""
    limits = LIMITS | {f"--{name.replace('_', '-')}": value for name, value in changed.items()}
    return [word for option in limits.items() for word in option]


def test_three_plans_are_there_from_the_start(cli):
    """`free`, `standard` and `enterprise` exist, listed with the smallest first."""
    plans = cli.json("plans", "list")
    assert [tuple(plan.values()) for plan in plans] == [
        ("free", 60, 60, 100, 100, 0, "off", [], "off", "off"),
        ("standard", 600, 60, 1_000, 1_000, 0, "off", [], "off", "off"),
        ("enterprise", 6_000, 60, 10_000, 10_000, 0, "off", [], "off", "off"),
    ]


def test_a_plan_is_added(cli):
    """The document has the members of the limits."""
    assert cli.json("plans", "set", "trial", *options()) == {
        "name": "trial",
        "requests": 5,
        "window_seconds": 60,
        "bulk_max": 10,
        "domains_max": 3,
        "watches_max": 0,
        "enquiry": "off",
        "enquiry_reasons": [],
        "suggest": "off",
        "sandbox": "off",
    }
    assert next(plan["name"] for plan in cli.json("plans", "list")) == "trial"


def test_a_plan_is_changed(cli):
    """The existing plan gets the new limits; other plans stay."""
    assert cli.json("plans", "set", "free", *options(requests=7))["requests"] == 7
    assert len(cli.json("plans", "list")) == 3


def test_watches_stay_as_they_are_unless_they_are_given(cli):
    """A command of the former release changes nothing about them."""
    assert cli.json("plans", "set", "free", *options(watches_max=9))["watches_max"] == 9
    assert cli.json("plans", "set", "free", *options())["watches_max"] == 9
    assert cli.json("plans", "set", "free", *options(watches_max=0))["watches_max"] == 0


@ON_SQLITE
@each_row(
    ("limit", "value"),
    [
        ("requests", 0),
        ("requests", 1_000_000_001),
        ("window", 0),
        ("window", 31_622_401),
        ("bulk_max", 0),
        ("bulk_max", 10_001),
        ("domains_max", -1),
        ("domains_max", 1_000_001),
        ("watches_max", 1_000_001),
    ],
)
def test_a_limit_out_of_range_is_refused(cli, limit, value):
    """The refusal names the option and its range, and the plan stays unchanged."""
    refusal = cli.refusal("plans", "set", "free", *options(**{limit: value}))
    assert f"--{limit.replace('_', '-')} must be from" in refusal
    assert cli.json("plans", "list")[0]["requests"] == 60


@pytest.mark.parametrize("limit", LIMITS)
def test_every_limit_is_needed(cli, limit):
    """All limits must be given: a forgotten option is a usage error."""
    words = options()
    at = words.index(limit)
    assert f"required: {limit}" in cli.misuse("plans", "set", "x", *words[:at], *words[at + 2 :])


def test_a_limit_is_a_whole_number(cli):
    """Anything but a whole number is a usage error."""
    assert "must be a whole number of at most 30 digits, not 'many'" in cli.misuse(
        "plans", "set", "x", *options(requests="many")
    )


def test_an_unused_plan_is_deleted(cli):
    """The command prints the plan and deletes it."""
    assert cli.json("plans", "delete", "enterprise")["requests"] == 6_000
    assert [plan["name"] for plan in cli.json("plans", "list")] == ["free", "standard"]


def test_a_plan_in_use_is_kept(cli):
    """The refusal names the plan's accounts, and how to move them."""
    cli.run("accounts", "create", "acme", "--plan", "free")
    refusal = cli.refusal("plans", "delete", "free")
    assert refusal == (
        'plan free is in use (acme); move its accounts with "verifyd accounts set-plan" first\n'
    )
    assert len(cli.json("plans", "list")) == 3


@pytest.mark.parametrize(("name", "reason"), [("standard", "by default"), ("gold", "no plan")])
def test_other_plans_cannot_be_deleted(cli, name, reason):
    """The default plan and unknown plans cannot be deleted."""
    assert reason in cli.refusal("plans", "delete", name)
    assert len(cli.json("plans", "list")) == 3


class TestEnquiry:
    """What the accounts of a plan must say about a look-up."""

    def test_it_is_set_and_listed(self, cli):
        """Each reason is listed once, without the spaces around it."""
        words = ("--enquiry", "required", "--enquiry-reasons", " THEFT,A B, THEFT ,x!~")
        plan = cli.json("plans", "set", "police", *options(), *words)
        assert (plan["enquiry"], plan["enquiry_reasons"]) == ("required", ["THEFT", "A B", "x!~"])
        assert plan in cli.json("plans", "list")
        assert "THEFT; A B; x!~" in cli.run("plans", "list").stdout
        cli.json("accounts", "create", "yard", "--plan", "police")
        shown = cli.json("accounts", "show", "yard")
        assert (shown["enquiry"], shown["enquiry_reasons"][0]) == ("required", "THEFT")

    def test_it_stays_when_limits_are_changed(self, cli):
        """A forgotten option must not switch a duty off."""
        words = ("--enquiry", "required", "--enquiry-reasons", "THEFT")
        cli.json("plans", "set", "free", *options(), *words)
        changed = cli.json("plans", "set", "free", *options(requests=7))
        assert (changed["enquiry"], changed["enquiry_reasons"]) == ("required", ["THEFT"])
        changed = cli.json("plans", "set", "free", *options(), "--enquiry", "optional")
        assert (changed["enquiry"], changed["enquiry_reasons"]) == ("optional", ["THEFT"])

    def test_every_reason_can_be_accepted_again(self, cli):
        """The empty text removes the list."""
        words = ("--enquiry", "optional", "--enquiry-reasons", "THEFT")
        cli.json("plans", "set", "free", *options(), *words)
        changed = cli.json("plans", "set", "free", *options(), "--enquiry-reasons", "")
        assert (changed["enquiry"], changed["enquiry_reasons"]) == ("optional", [])

    def test_reasons_need_a_plan_that_asks(self, cli):
        """Reasons that are ignored are a mistake; nothing is changed."""
        words = (*options(requests=7), "--enquiry-reasons", "THEFT")
        told = cli.refusal("plans", "set", "free", *words)
        assert "accepted reasons need an enquiry that is optional or required" in told
        assert cli.json("plans", "list")[0]["requests"] == 60

    @pytest.mark.parametrize("reasons", ["A,,B", ",", "A" * 65, "J\xfcrgen", "A\tB"])
    def test_a_reason_must_fit_a_header(self, cli, reasons):
        """Otherwise no client could send it."""
        words = ("--enquiry", "required", "--enquiry-reasons", reasons)
        told = cli.refusal("plans", "set", "free", *options(), *words)
        assert "each accepted reason must have 1 to 64 printable ASCII characters" in told

    def test_there_are_at_most_fifty_reasons(self, cli):
        """They are listed in errors."""
        for count, status in ((50, 0), (51, 1)):
            reasons = ",".join(f"R{number}" for number in range(count))
            words = ("--enquiry", "required", "--enquiry-reasons", reasons)
            assert cli.run("plans", "set", "free", *options(), *words).status == status

    def test_anything_else_is_a_usage_error(self, cli):
        """There are three words."""
        told = cli.misuse("plans", "set", "free", *options(), "--enquiry", "on")
        assert "--enquiry: must be off, optional or required, not 'on'" in told


class TestSuggest:
    """Whether unknown plates are answered with similar ones (D175)."""

    def test_it_is_set_and_listed(self, cli):
        """It stays when limits are changed, until it is switched off."""
        assert cli.json("plans", "set", "yard", *options(), "--suggest", "on")["suggest"] == "on"
        assert cli.json("plans", "set", "yard", *options(requests=7))["suggest"] == "on"
        assert next(plan["suggest"] for plan in cli.json("plans", "list")) == "on"
        cli.json("accounts", "create", "acme", "--plan", "yard")
        assert cli.json("accounts", "show", "acme")["suggest"] == "on"
        assert cli.json("plans", "set", "yard", *options(), "--suggest", "off")["suggest"] == "off"

    def test_anything_else_is_a_usage_error(self, cli):
        """There are two words."""
        told = cli.misuse("plans", "set", "free", *options(), "--suggest", "optional")
        assert "--suggest: must be off or on, not 'optional'" in told


class TestSandbox:
    """A plan is a sandbox from its creation, and accounts stay on their side (D180)."""

    def test_it_never_changes(self, cli):
        """The option is accepted again if it says what the plan is, and refused otherwise."""
        assert cli.json("plans", "set", "trial", *options(), "--sandbox", "on")["sandbox"] == "on"
        assert cli.json("plans", "set", "trial", *options(requests=7))["sandbox"] == "on"
        assert cli.json("plans", "set", "trial", *options(), "--sandbox", "on")["requests"] == 5
        refusal = cli.refusal("plans", "set", "trial", *options(requests=9), "--sandbox", "off")
        assert refusal == (
            "plan trial is a sandbox, and that never changes; create a plan of another name\n"
        )
        refusal = cli.refusal("plans", "set", "free", *options(), "--sandbox", "on")
        assert "plan free is no sandbox" in refusal
        plans = {
            plan["name"]: (plan["requests"], plan["sandbox"]) for plan in cli.json("plans", "list")
        }
        assert (plans["trial"], plans["free"]) == ((5, "on"), (60, "off"))

    def test_a_name_is_free_again_when_its_plan_was_deleted(self, cli):
        """No account was on it, so nothing changes sides."""
        cli.json("plans", "set", "trial", *options(), "--sandbox", "on")
        cli.json("plans", "delete", "trial")
        assert cli.json("plans", "set", "trial", *options())["sandbox"] == "off"

    def test_accounts_cannot_move(self, cli):
        """In neither direction; between plans of one side they can."""
        for name in ("one", "two"):
            cli.json("plans", "set", name, *options(), "--sandbox", "on")
        cli.json("accounts", "create", "tester", "--plan", "one")
        cli.json("accounts", "create", "acme")
        refusal = cli.refusal("accounts", "set-plan", "tester", "standard")
        assert "account tester cannot move from plan one to standard, because only one" in refusal
        assert (
            'create another account with "verifyd accounts create NAME --plan standard"' in refusal
        )
        assert "only two is a sandbox" in cli.refusal("accounts", "set-plan", "acme", "two")
        assert cli.json("accounts", "set-plan", "tester", "two")["plan"] == "two"
        assert cli.json("accounts", "show", "tester")["sandbox"] == "on"

    def test_keys_have_their_prefix(self, cli):
        """Also after a rotation, and a whole key names its id."""
        cli.json("plans", "set", "trial", *options(), "--sandbox", "on")
        cli.json("accounts", "create", "tester", "--plan", "trial")
        first = cli.json("keys", "create", "tester")["key"]
        second = cli.json("keys", "rotate", first)["key"]
        assert first.startswith("vfd_test_")
        assert second.startswith("vfd_test_")
        assert cli.json("keys", "revoke", second)["status"] == "revoked"
