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

    Each field is a setting, which deploy/docs/settings.md describes. Its variable is `VERIFYD_` and
    the field's name in upper case.
    """

    # SEC: it may hold a password.
    database_url: str = setting("sqlite:///verifyd.db", values.database_url, is_secret=True)
    bind: str = setting("127.0.0.1:8000", listen_addresses.listen_address)
    socket_group: int | None = setting("", values.group)
    """The group's number; None for the group of the process."""
    workers: int = setting(str(min(os.cpu_count() or 1, 16) + 1), values.whole_number(1, 64))
    state_dir: Path = setting("", values.directory)
    data_dir: Path = setting("", values.directory)
    drop_wait: str = setting("quiet", values.choice("quiet", "sha256", "done"))
    keep_loaded: int = setting("7d", values.age)
    """Seconds."""
    keep_failed: int = setting("30d", values.age)
    """Seconds."""
    drop_limit: int = setting("10G", values.size_bytes)
    """Bytes of all `loaded/` directories together, and of all `failed/` directories together."""
    backup_limit: int = setting("20G", values.size_bytes)
    """Bytes."""
    timezone: tzinfo = setting("UTC", time_zones.require_zone)
    trusted_proxies: tuple[Network, ...] = setting("", values.networks)
    anonymous_limit: int = setting("60", values.whole_number(1, 1_000_000))
    """Requests per minute."""
    access_log: bool = setting("on", values.on_or_off)
    console: bool = setting("off", values.on_or_off)
    console_bind: str = setting("", listen_addresses.optional_address)
    console_url: str = setting("", values.optional_url)
    console_idle: int = setting("1h", values.idle_time)
    """Seconds; 0 if only the end of the session counts."""
    console_proxy_secret: str = setting("", values.proxy_secret, is_secret=True)
    console_groups: Mapping[str, Role] = setting("", values.roles_by_group)
    """Roles by group, in their order."""
    console_limits: Mapping[str, int] = setting("", values.plates_by_role)
    """Plates by role."""
    register_order: tuple[str, ...] = setting("native,dvsa,rdw,dvla,mid,nyc", values.register_names)
    complete_registers: tuple[str, ...] = setting("", values.register_names)
    mot_first_years: Mapping[str, int] = setting("0", values.years_by_register)
    """Years by register. The key EVERY_REGISTER is for all others."""
    metrics_accounts: Collection[str] = setting("", values.names)
    keep_snapshots: int = setting("1", values.whole_number(0, 30))
    stale_after: Mapping[str, int] = setting("8d", values.ages_by_register)
    """Seconds by register. The key EVERY_REGISTER is for all others."""
    unchanged_after: Mapping[str, int] = setting("0", values.ages_or_off_by_register)
    """Seconds by register; 0 for never. The key EVERY_REGISTER is for all others."""
    loss_max: int = setting("10", values.whole_number(0, 100))
    """Per cent."""
    missed_after: Mapping[str, int] = setting("26h", values.ages_by_job)
    """Seconds by job. The key EVERY_REGISTER is for all others."""
    certificate: Path | None = setting("", values.absolute_path)
    audit: bool = setting("off", values.on_or_off)
    audit_dir: Path = setting("", values.directory)
    audit_keep: str = setting("24m", values.calendar_age)
    # SEC: its URLs may hold tokens.
    audit_digests: tuple[Destination, ...] = setting("", parse_destinations, is_secret=True)
    lookup_reasons: tuple[str, ...] = setting("", required_reasons)
    lookup_advice: str = setting("", lookup_advice)
    # SEC: its URLs may hold tokens.
    notify: tuple[Destination, ...] = setting("", parse_destinations, is_secret=True)
    morning_report: bool = setting("off", values.on_or_off)
    notify_secret: bytes | None = setting("", parse_secret, is_secret=True)

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
