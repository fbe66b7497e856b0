"""Declares the settings, and reads them from the environment, which no other module does.

All wrong settings are reported at once.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import tzinfo
from pathlib import Path
from typing import Any

from app.errors import OperatorError
from app.settings import listen_addresses, time_zones, values
from app.settings.destinations import Destination, parse_destinations, parse_secret
from app.settings.enquiries import lookup_advice, required_reasons
from app.settings.roles import Role
from app.settings.values import BESIDE_DATABASE, Network, Setting, setting, sqlite_path

PREFIX = "VERIFYD_"


class ConfigError(OperatorError):
    """One or more settings are wrong; `faults` holds a sentence for each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Config:
    """All settings, checked. `Config.from_env()` creates it; tests create it directly.

    Each field is a setting. Its variable is `VERIFYD_` and the field's name in upper case.
    """

    # SEC: it may hold a password.
    database_url: str = setting(
        "sqlite:///verifyd.db",
        values.database_url,
        "where the data is: `sqlite:///PATH` (`sqlite:////PATH` if absolute) or `postgresql://...`",
        is_secret=True,
    )
    bind: str = setting(
        "127.0.0.1:8000",
        listen_addresses.listen_address,
        "where `serve` listens: `ADDRESS:PORT` or `unix:/PATH`",
    )
    socket_group: int | None = setting(
        "",
        values.group,
        "group of that Unix socket, by name or number: only the service's user and this group can "
        "connect; by default the service's own group",
    )
    """The group's number; None for the group of the process."""
    workers: int = setting(
        str(min(os.cpu_count() or 1, 16) + 1),
        values.whole_number(1, 64),
        "worker processes, 1 to 64; by default one more than there are cores, at most 17",
    )
    state_dir: Path = setting(
        "",
        values.directory,
        "directory for rate limits and metrics, on this host and for one database, a tmpfs in "
        "production; by default `state/` beside the SQLite database, with Postgres in the current "
        "directory",
    )
    data_dir: Path = setting(
        "",
        values.directory,
        "directory on a disk for rejects files and queued alerts; by default the directory of the "
        "SQLite database, with Postgres `VERIFYD_STATE_DIR`",
    )
    drop_wait: str = setting(
        "quiet",
        values.choice("quiet", "sha256", "done"),
        "how `import --drop` knows that a file is complete (D73): `sha256` or `done`: a file "
        "`NAME.sha256` or `NAME.done` beside it; `quiet`: one minute without a change",
    )
    keep_loaded: int = setting(
        "7d",
        values.age,
        "how long `import --drop` keeps loaded files in `loaded/`: s, m, h or d; 0 removes "
        "them at once",
    )
    """Seconds."""
    keep_failed: int = setting(
        "30d",
        values.age,
        "how long `import --drop` keeps files that could not be loaded in `failed/`; 0 removes "
        "them at once",
    )
    """Seconds."""
    drop_limit: int = setting(
        "10G",
        values.size_bytes,
        "how much all `loaded/` directories hold together, and how much all `failed/` directories "
        "do; the oldest files are removed first: K, M, G or T",
    )
    """Bytes of all `loaded/` directories together, and of all `failed/` directories together."""
    backup_limit: int = setting(
        "20G",
        values.size_bytes,
        "how much the backups hold that `backup --keep` leaves; the oldest are removed first, the "
        "newest always stays",
    )
    """Bytes."""
    timezone: tzinfo = setting(
        "UTC",
        time_zones.require_zone,
        "time zone that decides which day it is (D20), such as `Europe/London`; the installer sets "
        "that of the host",
    )
    trusted_proxies: tuple[Network, ...] = setting(
        "",
        values.networks,
        "addresses or networks whose `X-Real-IP` (D10), `X-Request-ID` (D7) and "
        "`X-Forwarded-Proto` are trusted, separated by commas; the peer on a Unix socket is "
        "always trusted",
    )
    anonymous_limit: int = setting(
        "60",
        values.whole_number(1, 1_000_000),
        "requests per minute without a valid key, per client address (D10): 1 to 1,000,000",
    )
    access_log: bool = setting(
        "on", values.on_or_off, "one JSON line per request on stdout: `on` or `off`"
    )
    console: bool = setting(
        "off", values.on_or_off, "the operator's console at `/console`: `on` or `off`"
    )
    console_bind: str = setting(
        "",
        listen_addresses.optional_address,
        "where `serve` listens for the console alone: `ADDRESS:PORT` or `unix:/PATH`; by "
        "default the console is where the API is",
    )
    console_url: str = setting(
        "",
        values.optional_url,
        "where people reach the console, for links that sign them in, such as "
        "`https://verifyd.example.com`; by default a name in the certificate, or the host",
    )
    console_idle: int = setting(
        "1h",
        values.idle_time,
        "time without use after which a session of the console ends (D132): at least 10m, such as "
        "`30m` or `1h`; 0 for never before its eight hours",
    )
    """Seconds; 0 if only the end of the session counts."""
    console_proxy_secret: str = setting(
        "",
        values.proxy_secret,
        "the secret with which a proxy proves that it identified a person (D189): 32 to 200 "
        "characters; needs `VERIFYD_CONSOLE_GROUPS`",
        is_secret=True,
    )
    console_groups: Mapping[str, Role] = setting(
        "",
        values.roles_by_group,
        "the roles of people whom the proxy identified, by group of their directory, as in "
        "`it=operator,staff=clerk`: the first one that a person is in counts",
    )
    """Roles by group, in their order."""
    console_limits: Mapping[str, int] = setting(
        "",
        values.plates_by_role,
        "how many plates a person may look up in the console on a day, by role as in "
        "`clerk=500,viewer=50`: 1 to 1,000,000; a role that is not named has no limit",
    )
    """Plates by role."""
    register_order: tuple[str, ...] = setting(
        "native,dvsa,rdw,dvla,mid,nyc",
        values.register_names,
        "precedence of the registers when two describe one vehicle (D26), separated by commas; "
        "others follow by name",
    )
    complete_registers: tuple[str, ...] = setting(
        "",
        values.register_names,
        "names of the registers that hold every policy of the vehicles that are asked for, "
        "separated by commas (D198): only in them the absence of a policy is an answer",
    )
    mot_first_years: Mapping[str, int] = setting(
        "0",
        values.years_by_register,
        "years after first registration before an MOT is due (D154), 0 (off) to 10: `3` for all, "
        "or by register as in `dvsa=3,*=0`; they count only where no register knows an expiry",
    )
    """Years by register. The key EVERY_REGISTER is for all others."""
    metrics_accounts: Collection[str] = setting(
        "",
        values.names,
        "names of the accounts whose keys may read `/metrics` and the details of `/readyz` from "
        "another machine, separated by commas (D80)",
    )
    keep_snapshots: int = setting(
        "1",
        values.whole_number(0, 30),
        "how many earlier states of a register `imports rollback` can go back to: 0 to 30; "
        "each needs as much disk space as the register",
    )
    stale_after: Mapping[str, int] = setting(
        "8d",
        values.ages_by_register,
        "age of a register's last load from which it is reported as stale (D51): `36h` or `7d` for "
        "all, or by register as in `rdw=2d,mid=36h,*=7d`; s, m, h or d; without `*`, a register "
        "that is not named is never stale",
    )
    """Seconds by register. The key EVERY_REGISTER is for all others."""
    unchanged_after: Mapping[str, int] = setting(
        "0",
        values.ages_or_off_by_register,
        "time without a change of a register's content after which that is reported, "
        "although loads succeed: `7d` for all, or by register as in `rdw=2d,mid=36h,*=0`; s, m, h "
        "or d, 0 for never",
    )
    """Seconds by register; 0 for never. The key EVERY_REGISTER is for all others."""
    loss_max: int = setting(
        "10",
        values.whole_number(0, 100),
        "percentage of the rows that had a member in which a load may lose it (D157): 0 to 100",
    )
    missed_after: Mapping[str, int] = setting(
        "26h",
        values.ages_by_job,
        "time without a run after which a nightly job is reported as missed: `26h` for all, "
        "or by job as in `import=26h,backup=8d`; a job that is not named is never missed",
    )
    """Seconds by job. The key EVERY_REGISTER is for all others."""
    certificate: Path | None = setting(
        "",
        values.absolute_path,
        "the TLS certificate, in PEM, whose expiry is reported when 14 days are left, or a sixth "
        "of its lifetime if that is less",
    )
    audit: bool = setting(
        "off",
        values.on_or_off,
        "record who looked up which vehicle, why, and what they were told (D115): `on` or `off`",
    )
    audit_dir: Path = setting(
        "",
        values.directory,
        "directory of the audit trail, on a disk of this host; by default `audit/` in "
        "`VERIFYD_DATA_DIR`",
    )
    audit_keep: str = setting(
        "24m",
        values.calendar_age,
        "age up to which records of the audit trail are kept (D164): days, months or years, as in "
        "`730d`, `24m` or `2y`",
    )
    # SEC: its URLs may hold tokens.
    audit_digests: tuple[Destination, ...] = setting(
        "",
        parse_destinations,
        "where digests of the audit trail are sent (D168), as in `VERIFYD_NOTIFY`: to commands and "
        "URLs when more was sealed, by mail once a day",
        is_secret=True,
    )
    lookup_reasons: tuple[str, ...] = setting(
        "",
        required_reasons,
        "reasons of which people must give one for each look-up on the command line or the console "
        "(D165), separated by commas; `*` for any; by default none is needed",
    )
    lookup_advice: str = setting(
        "",
        lookup_advice,
        "what people do next after a look-up on the console that found no plate or a vehicle that "
        "is not insured or compliant, or not known to be: one line, at most 500 characters",
    )
    # SEC: its URLs may hold tokens.
    notify: tuple[Destination, ...] = setting(
        "",
        parse_destinations,
        "where alerts are sent (D77): `exec:/PATH`, `https://...` or `mailto:ADDRESS`, "
        "several separated by commas",
        is_secret=True,
    )
    morning_report: bool = setting(
        "off",
        values.on_or_off,
        "send a report every morning, also when all is well: `on` or `off`",
    )
    notify_secret: bytes | None = setting(
        "",
        parse_secret,
        "the secret that signs alerts to `https://...`: `whsec_`, then 24 to 64 bytes in base64",
        is_secret=True,
    )

    def __post_init__(self) -> None:
        """Derive the directories that are not set from the database's place."""
        database = sqlite_path(self.database_url)
        # NOTE: a frozen dataclass does not allow a plain assignment.
        if self.state_dir is BESIDE_DATABASE:
            parent = database.parent if database else Path()
            object.__setattr__(self, "state_dir", parent / "state")
        if self.data_dir is BESIDE_DATABASE:
            data_dir = database.parent if database else self.state_dir
            object.__setattr__(self, "data_dir", data_dir)
        if self.audit_dir is BESIDE_DATABASE:
            object.__setattr__(self, "audit_dir", self.data_dir / "audit")

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> "Config":
        """Read the settings from the environment.

        Raises ConfigError with every wrong value and every unknown `VERIFYD_` variable.
        """
        config, faults = cls.read(environ)
        if faults:
            raise ConfigError(faults)
        return config

    @classmethod
    def read(cls, environ: Mapping[str, str] | None = None) -> tuple["Config", list[str]]:
        """Return the settings and a list of faults. A wrong value is replaced by the default.

        Each fault begins with the name of the variable and a colon.
        """
        environ = with_credentials(os.environ if environ is None else environ)
        parsed: dict[str, Any] = {}
        faults = []
        for name, each in SETTINGS.items():
            if each.variable not in environ:
                continue  # The field keeps its default.
            try:
                parsed[name] = each.parse(environ[each.variable].strip())
            except ValueError as error:
                faults.append(f"{each.variable}: {error}")
        known = {each.variable for each in SETTINGS.values()}
        faults += [
            f"{variable}: no such setting"
            for variable in sorted(environ)
            if variable.startswith(PREFIX) and variable not in known
        ]
        return cls(**parsed), faults


SETTINGS: Mapping[str, Setting] = {
    each.name: Setting(variable=f"{PREFIX}{each.name.upper()}", **each.metadata)
    for each in fields(Config)
}
"""The settings by field name, in the order of the table in deploy/docs/settings.md."""


_CREDENTIALS = ("database_url", "notify_secret", "console_proxy_secret")
"""The settings that systemd can pass as credentials of the same names.

A secret is then in no environment that a unit file shows.
"""


def with_credentials(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables, and the value of each credential whose variable is not set.

    Raises OSError if the credential of the database's URL cannot be read.
    """
    directory = environ.get("CREDENTIALS_DIRECTORY")
    if directory is None:
        return environ
    found = {}
    for name in _CREDENTIALS:
        credential, variable = Path(directory) / name, SETTINGS[name].variable
        try:
            if variable not in environ and credential.exists():
                found[variable] = credential.read_text(encoding="utf-8", errors="replace")
        except OSError:
            # systemd 252 denies access to credentials while it checks the conditions of a unit.
            # A condition can be checked without the secret, but not without the URL: the
            # command would use another database.
            if name == "database_url":
                raise
    return {**environ, **found}


def setting_fault(name: str, fault: str) -> str:
    """Return a fault of a setting, given the name of its field.

    Each fault begins with the variable, so that faults can be compared.
    """
    return f"{SETTINGS[name].variable}: {fault}"


def is_set(name: str) -> bool:
    """Tell whether a setting has a value of its own, given the name of its field."""
    return SETTINGS[name].variable in with_credentials(os.environ)


def texts_of_settings() -> dict[str, str]:
    """Return the texts of the settings that the environment has, without secrets, by field name."""
    public = [each.name for each in fields(Config) if each.repr]
    variables = {name: SETTINGS[name].variable for name in public}
    return {
        name: os.environ[variable] for name, variable in variables.items() if variable in os.environ
    }


def sudo_user() -> str | None:
    """Return who ran this command with sudo, as the environment says; None without sudo."""
    return os.environ.get("SUDO_USER")
