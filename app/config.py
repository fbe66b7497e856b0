"""The settings, and the only place that reads the environment (DESIGN 4).

A setting is a field of `Config`. Its variable is the field's name in upper case after `VERIFYD_`.
All wrong settings are reported at once.
"""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import tzinfo
from pathlib import Path
from typing import Any

from app import setting_values as values
from app.destinations import Destination, parse_destinations, parse_secret
from app.errors import OperatorError
from app.setting_values import (
    BESIDE_DATABASE,
    EVERY_REGISTER,
    JOBS,
    Network,
    Setting,
    is_register_name,
    setting,
    socket_address,
    sqlite_path,
)

__all__ = [
    "EVERY_REGISTER",
    "JOBS",
    "PREFIX",
    "SETTINGS",
    "Config",
    "ConfigError",
    "Network",
    "is_register_name",
    "socket_address",
    "sqlite_path",
]
PREFIX = "VERIFYD_"
_CREDENTIALS = ("database_url", "notify_secret")


class ConfigError(OperatorError):
    """One or more settings are wrong; `faults` holds a sentence for each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


def _default_workers() -> int:
    return min(os.cpu_count() or 1, 16) + 1


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting, checked. `Config.from_env()` makes it; tests make it directly."""

    # SEC: it may hold a password.
    database_url: str = setting(
        "sqlite:///verifyd.db",
        values.database_url,
        "where the data is: `sqlite:///PATH` (`sqlite:////PATH` if absolute) or `postgresql://...`",
        is_secret=True,
    )
    bind: str = setting(
        "127.0.0.1:8000",
        values.listen_address,
        "where `serve` listens: `ADDRESS:PORT` or `unix:/PATH`",
    )
    socket_group: int | None = setting(
        "",
        values.group,
        "group of the Unix socket at which `serve` listens, by name or number; "
        "only it and the service's user can connect",
    )
    """The group's number; None for the group of the process."""
    workers: int = setting(
        str(_default_workers()),
        values.whole_number(1, 64),
        "worker processes, 1 to 64; by default one more than the machine has cores",
    )
    state_dir: Path = setting(
        "",
        values.directory,
        "directory for the rate limits' buckets and metrics, on this host and for "
        "one database, a tmpfs in production; by default `state/` beside the SQLite database",
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
        "what tells `import --drop` that a file is complete (D73): `sha256` or `done`, a file "
        "`NAME.sha256` or `NAME.done` beside it; `quiet`, one minute without a change",
    )
    keep_loaded: int = setting(
        "7d",
        values.age,
        "how long `import --drop` keeps files that it loaded in `loaded/` (D74): s, m, h or d; "
        "0 removes them at once",
    )
    """Seconds."""
    keep_failed: int = setting(
        "30d",
        values.age,
        "how long it keeps files that could not be loaded in `failed/`; 0 removes them at once",
    )
    """Seconds."""
    drop_limit: int = setting(
        "10G",
        values.size_bytes,
        "how much all `loaded/` directories hold together, and how much all `failed/` do; the "
        "oldest files go first: K, M, G or T",
    )
    """Bytes of all `loaded/` directories, and of all `failed/` directories."""
    backup_limit: int = setting(
        "20G",
        values.size_bytes,
        "how much the backups hold that `backup --keep` leaves; the oldest go first, the newest "
        "always stays (D74)",
    )
    """Bytes."""
    timezone: tzinfo = setting(
        "UTC", values.timezone, "whose calendar says what day it is (D20), such as `Europe/London`"
    )
    trusted_proxies: tuple[Network, ...] = setting(
        "",
        values.networks,
        "addresses or networks whose `X-Real-IP` (D10), `X-Request-ID` (D7) and "
        "`X-Forwarded-Proto` (D94) are believed, by commas; the peer on a Unix socket always is",
    )
    anonymous_limit: int = setting(
        "60",
        values.whole_number(1, 1_000_000),
        "requests a minute without a valid key, for each address (D10): 1 to 1,000,000",
    )
    access_log: bool = setting(
        "on", values.on_or_off, "one JSON line a request on stdout: `on` or `off`"
    )
    register_order: tuple[str, ...] = setting(
        "native,dvsa,rdw,dvla,mid,nyc",
        values.register_names,
        "precedence of the registers when two describe one vehicle (D26), by commas; "
        "others follow by name",
    )
    mot_first_years: int = setting(
        "0",
        values.whole_number(0, 10),
        "years after first registration before an MOT is due (D22): 0 (off) to 10; "
        "3 in Great Britain",
    )
    metrics_accounts: Collection[str] = setting(
        "",
        values.names,
        "names of the accounts whose keys may read `/metrics` from another machine, by commas",
    )
    keep_snapshots: int = setting(
        "1",
        values.whole_number(0, 30),
        "how many earlier states of a register `imports rollback` can go back to (D71): 0 to 30; "
        "each needs as much disk space as the register",
    )
    stale_after: Mapping[str, int] = setting(
        "8d",
        values.ages_by_register,
        "age from which a register's last load is a warning (D51): `36h` or `7d` for all, or by "
        "register as in `rdw=2d,mid=36h,*=7d`; s, m, h or d",
    )
    """Seconds by register; EVERY_REGISTER stands for all others."""
    loss_max: int = setting(
        "10",
        values.whole_number(0, 100),
        "percentage points by which the share of rows that know a member may fall in one load "
        "(D67): 0 to 100",
    )
    missed_after: Mapping[str, int] = setting(
        "26h",
        values.ages_by_job,
        "time without a run after which a nightly job is reported as missed (D76): `26h` for both, "
        "or by job as in `import=26h,backup=8d`; a job that is not named is never missed",
    )
    """Seconds by job; EVERY_REGISTER stands for all others."""
    certificate: Path | None = setting(
        "",
        values.absolute_path,
        "the TLS certificate, in PEM, that is reported when it expires within 14 days",
    )
    # SEC: its URLs may hold tokens.
    notify: tuple[Destination, ...] = setting(
        "",
        parse_destinations,
        "where alerts are sent (D77): `exec:/PATH`, `https://...` or `mailto:ADDRESS`, "
        "several separated by commas",
        is_secret=True,
    )
    notify_secret: bytes | None = setting(
        "",
        parse_secret,
        "the secret that signs what is sent to `https://...`: `whsec_`, then 24 to 64 bytes in "
        "base64",
        is_secret=True,
    )

    def __post_init__(self) -> None:
        """Put the directories that are not set beside the database."""
        database = sqlite_path(self.database_url)
        # NOTE: this is how a field of a frozen dataclass is set while it is made.
        if self.state_dir is BESIDE_DATABASE:
            parent = database.parent if database else Path()
            object.__setattr__(self, "state_dir", parent / "state")
        if self.data_dir is BESIDE_DATABASE:
            data_dir = database.parent if database else self.state_dir
            object.__setattr__(self, "data_dir", data_dir)

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
        """Return the settings, with defaults in place of wrong values, and what is wrong.

        Each fault is a sentence that begins with the variable and a colon.
        """
        environ = _with_credentials(os.environ if environ is None else environ)
        parsed: dict[str, Any] = {}
        faults = []
        for name, each in SETTINGS.items():
            if each.variable not in environ:
                continue  # The field has its default.
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
"""The settings by field, in the order of the reference."""


def _with_credentials(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Add secrets from systemd's credentials to the variables, which go before them (D49)."""
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
            # While systemd 252 checks a unit's conditions, credentials cannot be read. Without
            # the secret a condition can still be checked. Without the URL the command would use
            # another database.
            if name == "database_url":
                raise
    return {**environ, **found}
