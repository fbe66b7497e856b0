"""What the command line says about mistakes: short, the same on all versions of Python (D88)."""

import pytest

from app.accounts.tokens import new_token
from app.cli import build_parser
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
}


@pytest.fixture
def database_kind() -> str:
    """SQLite: no database is opened."""
    return "sqlite"


@pytest.mark.parametrize("words", MISTAKES)
def test_a_mistake_is_answered_in_three_lines(bare_cli, words):
    """The usage in one line, the mistake with what was probably meant, and where the help is."""
    usage, mistake, helped = MISTAKES[words]
    told = bare_cli.misuse(*words.split())
    assert told == f'usage: {usage}\nerror: {mistake}\nsee "{helped} --help"\n'


@pytest.mark.parametrize(
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


@pytest.mark.parametrize("words", [words for words, _, _ in EVERY], ids=" ".join)
def test_every_command_refuses_unknown_options_in_its_own_name(bare_cli, words):
    """Groups of commands, too."""
    told = bare_cli.misuse(*words, "--nonsense-option")
    assert told.startswith(f"usage: {' '.join(('verifyd', *words))}")
    assert told.endswith(f'see "{" ".join(("verifyd", *words))} --help"\n')
    assert told.count("\n") == 3


def test_help_has_no_colour(bare_cli, monkeypatch):
    """Also where argparse would use it."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in bare_cli.run("keys", "create", "--help").stdout
