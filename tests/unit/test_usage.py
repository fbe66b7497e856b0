"""What the command line says about mistakes: short, the same on all versions of Python."""

import pytest

from app.accounts.tokens import new_token
from app.cli import build_parser
from tests.rows import each_row
from tests.unit.test_help import EVERY

KEY = new_token("AbCdEf").text

MISTAKES = {
    "": ("verifyd COMMAND ...", "the following arguments are required: COMMAND", "verifyd"),
    "srve": ("verifyd COMMAND ...", "there is no command 'srve'; did you mean serve?", "verifyd"),
    "xyz": ("verifyd COMMAND ...", "there is no command 'xyz'", "verifyd"),
    "keys revok x": (
        "verifyd keys COMMAND ...",
        "there is no command 'revok'; did you mean revoke?",
        "verifyd keys",
    ),
    "keys list --jsno": (
        "verifyd keys list [ACCOUNT] [OPTION ...]",
        "there is no option --jsno; did you mean --json?",
        "verifyd keys list",
    ),
    "backup --kep 3": (
        "verifyd backup DEST [OPTION ...]",
        "there is no option --kep; did you mean --keep?",
        "verifyd backup",
    ),
    "import a.csv --kind polcies": (
        "verifyd import [FILE ...] [OPTION ...]",
        "argument --kind: must be vehicles, policies or fines, not 'polcies'; "
        "did you mean policies?",
        "verifyd import",
    ),
    "plans set x --requests 1": (
        "verifyd plans set NAME --requests N --window SECONDS --bulk-max N --domains-max N "
        "[OPTION ...]",
        "the following arguments are required: --window, --bulk-max, --domains-max",
        "verifyd plans set",
    ),
    "serve x": ("verifyd serve", "unrecognized arguments: x", "verifyd serve"),
    "--verison": (
        "verifyd COMMAND ...",
        "there is no option --verison; did you mean --version?",
        "verifyd",
    ),
    "keys --jsno list": ("verifyd keys COMMAND ...", "there is no option --jsno", "verifyd keys"),
    "console link --as ann": (
        "verifyd console link --as NAME --role clerk|viewer|operator|auditor [OPTION ...]",
        "the following arguments are required: --role",
        "verifyd console link",
    ),
    "imports rollback rdw": (
        "verifyd imports rollback [OPTION ...]",
        "unrecognized arguments: rdw; did you mean --register rdw?",
        "verifyd imports rollback",
    ),
    "usage acme corp": (
        "verifyd usage [OPTION ...]",
        "unrecognized arguments: acme corp",
        "verifyd usage",
    ),
    "usage acme": (
        "verifyd usage [OPTION ...]",
        "unrecognized arguments: acme; did you mean --account acme?",
        "verifyd usage",
    ),
}
SYNONYMS = {
    "accounts add": "create",
    "accounts remove": "delete",
    "accounts ls": "list",
    "accounts enable": "resume",
    "plans create": "set",
    "plans show": "list",
    "keys add": "create",
    "keys delete": "revoke",
    "keys remove": "revoke",
    "imports remove": "drop",
    "imports undo": "rollback",
    "domains enable": "activate",
    "audit find": "search",
    "user": "accounts",
    "start": "serve",
    "load": "import",
    "find": "lookup",
}


@pytest.fixture
def database_kind() -> str:
    """SQLite: no database is opened."""
    return "sqlite"


@each_row("words", MISTAKES)
def test_a_mistake_is_answered_in_three_lines(bare_cli, words):
    """The usage in one line, the mistake with what was probably meant, and where the help is."""
    usage, mistake, helped = MISTAKES[words]
    told = bare_cli.misuse(*words.split())
    assert told == f'usage: {usage}\nerror: {mistake}\nsee "{helped} --help"\n'


@each_row("words", SYNONYMS)
def test_what_other_programs_call_a_command_is_understood(bare_cli, words):
    """A word with the same meaning counts before one with similar letters."""
    told = bare_cli.misuse(*words.split(), "acme")
    assert f"there is no command {words.split()[-1]!r}; did you mean {SYNONYMS[words]}?\n" in told


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("plans set x --requests abc", "--requests"),
        ("plans set x --window 1.5", "--window"),
        ("keys rotate 3NnTYh3d --grace 1h", "--grace"),
        ("imports rollback --to latest", "--to"),
        ("plans set x --requests 1_000", "--requests"),
    ],
)
def test_what_is_no_number_is_called_so(bare_cli, words, option):
    """The option and the rule are named, not a type of Python."""
    value = words.split()[-1]
    assert f"argument {option}: must be a whole number of at most 30 digits, not {value!r}\n" in (
        bare_cli.misuse(*words.split())
    )


@each_row(
    ("option", "setting"),
    [
        ("--port", "VERIFYD_BIND"),
        ("--port=9000", "VERIFYD_BIND"),
        ("--host", "VERIFYD_BIND"),
        ("--bind", "VERIFYD_BIND"),
        ("-p", "VERIFYD_BIND"),
        ("-b", "VERIFYD_BIND"),
        ("--workers", "VERIFYD_WORKERS"),
        ("-w", "VERIFYD_WORKERS"),
        ("--db", "VERIFYD_DATABASE_URL"),
        ("--database-url", "VERIFYD_DATABASE_URL"),
        ("--timezone", "VERIFYD_TIMEZONE"),
    ],
)
def test_serve_names_the_setting_to_use(bare_cli, option, setting):
    """Other servers have options for what is a setting here."""
    name = option.partition("=")[0]
    told = bare_cli.misuse("serve", option, "1")
    assert f"error: there is no option {name}; set {setting} instead\n" in told


@pytest.mark.parametrize(
    "words", [("lookup", "--column", "-Foo bar", "--csv", "x"), ("import", "--", "--drp")]
)
def test_what_is_no_option_is_not_taken_for_one(words):
    """A value with a space, and everything after two hyphens."""
    assert build_parser(words).parse_args(words).run


@pytest.mark.parametrize(
    "words",
    [
        (KEY,),
        ("keys", KEY),
        ("keys", "revoke", KEY[:-1]),
        ("keys", "revoke", KEY[4:]),
        ("keys", "revoke", "3NnTYh3d", KEY),
        ("keys", "rotate", f"--id={KEY}"),
        ("keys", "list", "--kind", KEY),
    ],
)
def test_no_mistake_repeats_a_key(bare_cli, words):
    """Neither the whole key nor the part of it that was typed is in the answer."""
    told = bare_cli.misuse(*words)
    assert KEY[4:40] not in told
    assert KEY[-40:-1] not in told


@each_row("words", [words for words, _, _ in EVERY], ids=" ".join)
def test_every_command_refuses_unknown_options_in_its_own_name(bare_cli, words):
    """Groups of commands, too."""
    told = bare_cli.misuse(*words, "--nonsense-option")
    assert told.startswith(f"usage: {' '.join(('verifyd', *words))}")
    assert told.endswith(f'see "{" ".join(("verifyd", *words))} --help"\n')
    assert told.count("\n") == 3
    assert "None" not in told


def test_help_has_no_colour(bare_cli, monkeypatch):
    """Also where argparse would use it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in bare_cli.run("keys", "create", "--help").stdout
