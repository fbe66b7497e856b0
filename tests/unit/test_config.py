"""Settings have types and limits, and a refusal names the setting."""

import base64
import grp
import ipaddress
import re
import zoneinfo
from dataclasses import fields
from datetime import UTC
from pathlib import Path

import pytest

from app.config import PREFIX, SETTINGS, Config, ConfigError
from app.settings.destinations import Destination
from app.settings.roles import Role
from app.settings.values import is_register_name, sqlite_path
from tests.rows import each_row

SECRET = "whsec_" + base64.b64encode(b"x" * 24).decode()


def read(**environ):
    """Read settings, named without their prefix and in lower case."""
    return Config.from_env({f"{PREFIX}{name.upper()}": value for name, value in environ.items()})


def faults(**environ):
    """Return the faults of settings."""
    with pytest.raises(ConfigError) as caught:
        read(**environ)
    return caught.value.faults


def test_every_setting_has_a_default():
    """An empty environment is enough to start."""
    config = read()
    assert config.database_url == "sqlite:///verifyd.db"
    assert config.bind == "127.0.0.1:8000"
    assert 2 <= config.workers <= 17
    assert config.state_dir == Path("state")
    assert config.timezone is UTC
    assert config.trusted_proxies == ()
    assert config.access_log is True
    assert config.register_order == ("native", "dvsa", "rdw", "dvla", "mid", "nyc")
    assert config.mot_first_years == {"*": 0}
    assert config.stale_after == {"*": 8 * 86_400}
    assert config.unchanged_after == {"*": 0}
    assert config.missed_after == {"*": 26 * 3600}
    assert (config.notify, config.notify_secret, config.certificate) == ((), None, None)
    assert config.loss_max == 10
    assert config.socket_group is None
    assert (config.audit, config.audit_dir) == (False, Path("audit"))


def test_settings_and_fields_are_the_same():
    """Each setting is a field of Config, in the same order."""
    assert list(SETTINGS) == [field.name for field in fields(Config)]


def test_there_is_one_default():
    """A Config made directly has the same defaults as an empty environment."""
    assert Config() == read()
    assert Config(database_url="sqlite:////a/b.db") == read(database_url="sqlite:////a/b.db")


def test_the_current_directory_is_a_directory():
    """A directory set to `.` stays the current directory."""
    config = read(database_url="sqlite:////a/b.db", state_dir=".", data_dir=".")
    assert (config.state_dir, config.data_dir) == (Path("."), Path("."))


@each_row("name", SETTINGS)
def test_a_setting_is_named_like_its_field(name):
    """A variable is its field's name in upper case after the prefix."""
    assert SETTINGS[name].variable == f"{PREFIX}{name.upper()}"


@each_row(
    ("name", "text", "value"),
    [
        ("database_url", "sqlite:////var/lib/verifyd/a.db", "sqlite:////var/lib/verifyd/a.db"),
        ("database_url", " sqlite:///a.db ", "sqlite:///a.db"),
        ("database_url", "postgresql://u:p@h/d", "postgresql://u:p@h/d"),
        ("database_url", "postgres://u:p@h/d", "postgresql://u:p@h/d"),
        ("bind", "0.0.0.0:80", "0.0.0.0:80"),
        ("bind", "[::1]:65535", "[::1]:65535"),
        ("bind", "unix:/run/verifyd.sock", "unix:/run/verifyd.sock"),
        ("bind", f"unix:/{'a' * 106}", f"unix:/{'a' * 106}"),
        ("console_bind", "", ""),
        ("console_bind", "unix:/run/console.sock", "unix:/run/console.sock"),
        ("console_url", "", ""),
        ("console_url", "https://v.example/", "https://v.example"),
        ("console_idle", "0", 0),
        ("console_idle", "10m", 600),
        ("console_idle", "2h", 7_200),
        ("console_limits", "", {}),
        ("console_limits", "clerk = 500, viewer=1000000", {"clerk": 500, "viewer": 1_000_000}),
        ("workers", "1", 1),
        ("workers", "64", 64),
        ("state_dir", "/run/verifyd", Path("/run/verifyd")),
        ("timezone", "UTC", UTC),
        ("timezone", "Europe/London", zoneinfo.ZoneInfo("Europe/London")),
        ("trusted_proxies", "10.0.0.1", (ipaddress.ip_network("10.0.0.1/32"),)),
        (
            "trusted_proxies",
            " 10.0.0.0/8 , fd00::/8, ",
            (ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fd00::/8")),
        ),
        ("access_log", "off", False),
        ("lookup_advice", "Rufen Sie an: 4100.", "Rufen Sie an: 4100."),
        ("register_order", "rdw, native", ("rdw", "native")),
        ("register_order", "", ()),
        ("complete_registers", "mid, native", ("mid", "native")),
        ("complete_registers", "", ()),
        ("mot_first_years", "10", {"*": 10}),
        ("mot_first_years", "dvsa=3, rdw = 4 ,*=0", {"dvsa": 3, "rdw": 4, "*": 0}),
        ("mot_first_years", "dvsa=3", {"dvsa": 3}),
        ("socket_group", grp.getgrgid(0).gr_name, 0),
        ("socket_group", "4242", 4242),
        ("socket_group", "", None),
        ("loss_max", "0", 0),
        ("loss_max", "100", 100),
        ("stale_after", "7d", {"*": 604_800}),
        ("stale_after", "rdw=2d, mid = 36h ,*=90m", {"rdw": 172_800, "mid": 129_600, "*": 5400}),
        ("stale_after", "rdw=10s", {"rdw": 10}),
        ("unchanged_after", "rdw=2d, *=0", {"rdw": 172_800, "*": 0}),
        ("missed_after", "import=26h,backup=8d", {"import": 93_600, "backup": 691_200}),
        ("missed_after", "", {}),
        ("certificate", "/etc/tls/a.pem", Path("/etc/tls/a.pem")),
        ("notify", "", ()),
        (
            "notify",
            "exec:/bin/a b, https://h:1/p?q=%2C, mailto:ops@example.com,",
            (
                Destination("exec", "/bin/a b"),
                Destination("https", "https://h:1/p?q=%2C"),
                Destination("mailto", "ops@example.com"),
            ),
        ),
        ("notify", "mailto:root", (Destination("mailto", "root"),)),
        ("notify_secret", SECRET, b"x" * 24),
        ("notify_secret", "", None),
        ("console_proxy_secret", "", ""),
        ("console_proxy_secret", f"{'!' * 31}~", f"{'!' * 31}~"),
        ("console_proxy_secret", "a" * 200, "a" * 200),
        ("console_groups", "", {}),
        (
            "console_groups",
            " it = operator, Domain Users=clerk,a=b=viewer,Ko\u0308ln=auditor,",
            {
                "it": Role.OPERATOR,
                "Domain Users": Role.CLERK,
                "a=b": Role.VIEWER,
                "K\u00f6ln": Role.AUDITOR,
            },
        ),
    ],
)
def test_a_value_is_read(name, text, value):
    """Values have types; surrounding space does not matter."""
    assert getattr(read(**{name: text}), name) == value


@each_row(
    ("name", "text"),
    [
        *(("database_url", text) for text in ("", "verifyd.db", "sqlite:", "sqlite:///")),
        *(("database_url", text) for text in ("sqlite://a.db", "mysql://h/d", "postgresql:d")),
        *(("bind", text) for text in ("", "8000", ":8000", "h:", "h:0", "h:65536", "h:x", "h:-1")),
        *(("bind", text) for text in ("unix:", "unix:a.sock", "h:\u0661", f"unix:/{'é' * 54}")),
        *(("console_bind", text) for text in ("8001", "unix:x", "h:0")),
        *(("console_url", text) for text in ("v.example", "https://", "https://v/?a", "ftp://v")),
        *(("console_url", text) for text in ("https://[v", "https://[v]", "https://v:x")),
        *(("console_idle", text) for text in ("", "1", "599s", "9m", "0m", "1w")),
        *(("console_limits", text) for text in ("500", "*=5", "clerk", "clerk=", "Clerk=5")),
        *(("console_limits", text) for text in ("clerk=0", "clerk=-1", "clerk=1000001", "boss=5")),
        *(
            ("console_limits", text)
            for text in ("clerk=5,clerk=6", "clerk=5.5", "clerk=5;viewer=6")
        ),
        *(("workers", text) for text in ("", "0", "65", "-1", "1.5", "two", "\u0661")),
        *(("timezone", text) for text in ("", "Mars/Phobos", "../etc/passwd", "/etc/passwd")),
        *(("timezone", text) for text in ("Europe", "+01:00", "a\0b")),
        *(("trusted_proxies", text) for text in ("x", "10.0.0.1/8", "10.0.0.0/33", "a.example")),
        *(("access_log", text) for text in ("", "true", "ON", "1")),
        *(("register_order", text) for text in ("a,a", "A", "1a", "a-b", "a b", "x" * 31)),
        *(("complete_registers", text) for text in ("mid,mid", "MID", "mid;native")),
        *(("mot_first_years", text) for text in ("", "-1", "11", "three", "dvsa=", "=3")),
        *(("mot_first_years", text) for text in ("dvsa=11", "dvsa=3,dvsa=3", "DVSA=3", "dvsa=3d")),
        *(("socket_group", text) for text in ("no such group", "-1", "4294967295", "\u0661")),
        *(("stale_after", text) for text in ("2", "2w", "0d", "-1d", "1.5d", "d", "rdw=", "=2d")),
        *(("loss_max", text) for text in ("-1", "101", "10%", "2.5", "")),
        *(("unchanged_after", text) for text in ("", "2", "0d", "rdw=", "RDW=2d", "a=1d,a=0")),
        *(("stale_after", text) for text in ("rdw", "RDW=2d", "a=b=2d", "a=1d,a=2d", "1d,2d")),
        *(("missed_after", text) for text in ("2", "restore=1d", "import=1d,import=2d")),
        ("certificate", "tls/a.pem"),
        *(("lookup_advice", text) for text in ("x" * 501, "a\nb", "\x1b[31m")),
        *(("notify", text) for text in ("x", "exec:a", "exec:/", "exec:/a\nb", "http://h/")),
        *(("notify", text) for text in ("mailto:", "mailto:-x", "mailto:a b", "mailto:@b")),
        *(("notify", text) for text in ("mailto:a@b\nBcc: c", "https://", "https://u:p@h/")),
        *(("notify", text) for text in ("https://a..b/", f"https://{'a' * 64}.b/", "https://.b/")),
        *(("notify", text) for text in ("https://h:x/", "https://h:0/", "https://h/a b")),
        *(("notify", text) for text in ("https://h/#a", "https://\u00fc/", "https:h")),
        *(("console_proxy_secret", text) for text in ("a" * 31, "a" * 201, "\xe9" * 32)),
        *(("console_proxy_secret", text) for text in (f"{'a' * 32} b", f"{'a' * 32},", "a\n" * 32)),
        *(("console_groups", text) for text in ("it", "it=", "=clerk", "it=admin", "it=Clerk")),
        *(("console_groups", text) for text in ("a=clerk,a=viewer", "\xe9=clerk,e\u0301=clerk")),
        *(("notify_secret", text) for text in ("whsec_", "whsec_MTIz", "eHh4", "whsec_!" * 9)),
        *(("stale_after", text) for text in ("*=1d,2d", "rdw:2d", "\u0661d", "9999999999d")),
    ],
)
def test_a_bad_value_is_refused_by_name(name, text):
    """A wrong value stops the start, with the variable's name and the expected form."""
    (fault,) = faults(**{name: text})
    assert fault.startswith(f"{SETTINGS[name].variable}: ")
    assert re.search(r"must be|is written", fault)


@each_row(
    ("name", "told"),
    [
        ("stale_after", "36h or 7d, or one for each register, as in rdw=2d,*=7d"),
        ("unchanged_after", "7d, or 0, or one for each register, as in rdw=2d,*=0"),
        ("missed_after", "26h, or one for each job, as in import=26h,backup=8d"),
    ],
)
def test_the_fault_of_an_age_says_what_ages_are_by(name, told):
    """Jobs are not registers."""
    for text in ("2", "rdw=2"):
        assert faults(**{name: text}) == [
            f"{SETTINGS[name].variable}: must be an age such as {told}"
        ]


def test_all_faults_are_reported_at_once():
    """All faults are listed at once."""
    told = faults(workers="0", bind="x", no_such="1")
    assert [fault.split(":")[0] for fault in told] == [
        "VERIFYD_BIND",
        "VERIFYD_WORKERS",
        "VERIFYD_NO_SUCH",
    ]


@pytest.mark.parametrize("name", ["VERIFYD_", "VERIFYD_WORKER", "VERIFYD_workers"])
def test_an_unknown_variable_is_refused(name):
    """A mistyped setting is refused instead of staying at its default."""
    with pytest.raises(ConfigError, match=f"{name}: no such setting"):
        Config.from_env({name: "1"})


def test_other_variables_are_not_read():
    """Only variables with the prefix are read."""
    assert Config.from_env({"PATH": "x", "verifyd_workers": "x"}) == Config.from_env({})


@each_row(
    "url",
    [
        "mysql://u:secret@h/d",
        "postgres:/u:secret@h/d",
        "postgresql//u:secret@h",
        "http://u:secret\u2100@h/d",
        "ftp://u:secret@[h/d",
    ],
)
def test_a_password_is_never_repeated(url):
    """The fault of a database URL is described without the URL."""
    assert "secret" not in "".join(faults(database_url=url))


def test_destinations_are_never_repeated():
    """A destination can hold a token, so neither errors nor printed settings show it."""
    text = "https://h/token,ftp://h/token"
    assert "token" not in "".join(faults(notify=text, notify_secret="whsec_token"))
    assert "token" not in "".join(faults(console_proxy_secret="token"))
    config = read(notify="https://h/token", notify_secret=SECRET)
    assert "token" not in repr(config)
    assert "xxx" not in repr(config)
    assert [each.name for each in config.notify] == ["https://h/"]


def test_destinations_on_one_host_are_told_apart_by_their_places():
    """Of several destinations each URL has its place in its name, which is no part of its value."""
    config = read(notify="mailto:a,https://h/1,https://h/2", notify_secret=SECRET)
    names = ["mailto:a", "https://h/ (destination 2)", "https://h/ (destination 3)"]
    assert [each.name for each in config.notify] == names
    assert config.notify[1] == Destination("https", "https://h/1")


def test_a_destination_is_named_once():
    """A destination given twice is refused: it would get each message twice."""
    assert faults(notify="mailto:a,mailto:a") == [
        "VERIFYD_NOTIFY: must not name a destination twice"
    ]


def test_the_secret_can_be_a_credential(tmp_path):
    """Secrets can be credentials, like the database's URL."""
    (tmp_path / "notify_secret").write_text(f"{SECRET}\n")
    credentials = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert Config.from_env(credentials).notify_secret == b"x" * 24
    (tmp_path / "console_proxy_secret").write_text(f"{'x' * 32}\n")
    assert Config.from_env(credentials).console_proxy_secret == "x" * 32


def test_an_unreadable_secret_counts_as_unset(tmp_path):
    """A unit's condition sees where credentials are, but cannot read them."""
    (tmp_path / "notify_secret").mkdir()
    credentials = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert Config.from_env(credentials).notify_secret is None
    (tmp_path / "database_url").mkdir()
    with pytest.raises(IsADirectoryError):
        Config.from_env(credentials)


def test_any_password_is_let_through():
    """The driver decides whether it can use a URL."""
    url = "postgresql://u:p\u2100[ss@h/d"
    assert read(database_url=url).database_url == url


@each_row(
    ("url", "state_dir"),
    [
        ("sqlite:///a.db", "state"),
        ("sqlite:///data/a.db", "data/state"),
        ("sqlite:////var/lib/a.db", "/var/lib/state"),
        ("postgresql://h/d", "state"),
    ],
)
def test_the_state_directory_is_beside_the_database(url, state_dir):
    """By default the state directory is next to the SQLite file."""
    assert read(database_url=url).state_dir == Path(state_dir)


def test_the_accounts_of_the_metrics():
    """Account names are separated by commas, and can hold any other character."""
    assert read().metrics_accounts == set()
    assert read(metrics_accounts=" Acme Ltd, ops ,").metrics_accounts == {"Acme Ltd", "ops"}


def test_the_path_of_a_sqlite_url():
    """A SQLite URL is three slashes and a path; other engines have no path."""
    assert sqlite_path("sqlite:///a.db") == Path("a.db")
    assert sqlite_path("sqlite:////a.db") == Path("/a.db")
    assert sqlite_path("postgresql://h/d") is None


@each_row("name", ["a", "native", "a1_b", "x" * 30])
def test_register_names(name):
    """A name becomes a schema's name: 1 to 30 of a-z, 0-9 and _, first a letter."""
    assert is_register_name(name)
    assert not is_register_name(name.upper())
    assert not is_register_name(f"{name}\n")
    assert not is_register_name(f"1{name}")


def test_the_database_url_can_be_a_credential(tmp_path):
    """A variable overrides systemd's credential of the same setting."""
    credentials = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert Config.from_env(credentials).database_url == "sqlite:///verifyd.db"
    (tmp_path / "database_url").write_text("sqlite:////data/a.db\n")
    assert Config.from_env(credentials).database_url == "sqlite:////data/a.db"
    both = credentials | {"VERIFYD_DATABASE_URL": "sqlite:////data/b.db"}
    assert Config.from_env(both).database_url == "sqlite:////data/b.db"


def test_a_wrong_credential_is_not_repeated(tmp_path):
    """A credential can hold a password, so errors do not repeat it."""
    (tmp_path / "database_url").write_bytes(b"\xffhunter2")
    with pytest.raises(ConfigError) as error:
        Config.from_env({"CREDENTIALS_DIRECTORY": str(tmp_path)})
    assert str(error.value).startswith("VERIFYD_DATABASE_URL: must be")
    assert "hunter2" not in str(error.value)
