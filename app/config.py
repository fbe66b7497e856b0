"""The settings: the only reader of the environment (DESIGN 4).

Each setting has a default, a unit and limits; every wrong one is reported at once, by name.
"""

import grp
import ipaddress
import os
import re
import socket
import zoneinfo
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Any, NamedTuple

from app.destinations import Destination, parse_destinations, parse_secret
from app.errors import OperatorError

PREFIX = "VERIFYD_"
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_REGISTER_NAME = re.compile(r"[a-z][a-z0-9_]{0,29}\Z")
EVERY_REGISTER = "*"
"""What stands for all registers that are not named."""
JOBS = ("import", "backup")
"""The nightly jobs: `verifyd import --drop` and `verifyd backup`."""
_AGE = re.compile(r"(?P<number>[1-9][0-9]{0,8})(?P<unit>[smhd])\Z", re.ASCII)
_CREDENTIALS = ("database_url", "notify_secret")
_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_SIZE = re.compile(r"(?P<number>[1-9][0-9]{0,8})(?P<unit>[KMGT])\Z", re.ASCII)
_UNIT_BYTES = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class ConfigError(OperatorError):
    """One or more settings are wrong; `faults` holds a sentence for each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


class Setting(NamedTuple):
    """One environment variable: how it is read, and what the table of settings says of it."""

    variable: str
    default: str
    parse: Callable[[str], Any]
    meaning: str


def is_register_name(text: str) -> bool:
    """Tell whether `text` can name a register: 1 to 30 of a-z, 0-9 and _, a letter first."""
    return _REGISTER_NAME.match(text) is not None


def _database_url(text: str) -> str:
    text = re.sub(r"\Apostgres://", "postgresql://", text)
    if re.match(r"(sqlite:///|postgresql://).", text):
        return text
    # SEC: the value is not repeated; it may hold a password.
    raise ValueError("must be sqlite:///PATH or postgresql://...")


def _bind(text: str) -> str:
    if text.startswith("unix:"):
        if len(text) > len("unix:") and text.startswith("unix:/"):
            return text
        raise ValueError("a Unix socket is written unix:/ABSOLUTE/PATH")
    host, _, port = text.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 1 <= int(port) <= 65535:
        raise ValueError("must be ADDRESS:PORT, the port from 1 to 65535, or unix:/PATH")
    return text


def _group(text: str) -> int | None:
    if not text:
        return None
    if text.isascii() and text.isdigit():
        return _integer(0, 2**32 - 2)(text)
    try:
        return grp.getgrnam(text).gr_gid
    except KeyError:
        raise ValueError("must be a group of this host, by name or number") from None


def _integer(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least:,} to {most:,}")
        return int(text)

    return parse


def _timezone(text: str) -> tzinfo:
    if text == "UTC":
        return UTC
    try:
        return zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be the name of a time zone, such as Europe/London") from None


def _networks(text: str) -> tuple[Network, ...]:
    try:
        return tuple(ipaddress.ip_network(part) for part in _words(text))
    except ValueError:
        raise ValueError("must be addresses or networks such as 10.0.0.0/8, by commas") from None


def _switch(text: str) -> bool:
    if text not in ("on", "off"):
        raise ValueError("must be on or off")
    return text == "on"


def _register_names(text: str) -> tuple[str, ...]:
    names = _words(text)
    if not all(map(is_register_name, names)) or len(set(names)) < len(names):
        raise ValueError("must be different register names, by commas")
    return names


def _ages(text: str) -> dict[str, int]:
    """Read `7d`, or `rdw=2d,mid=36h,*=7d`, into seconds by register."""
    ages: dict[str, int] = {}
    for part in _words(text):
        name, _, age = part.rpartition("=")
        name = name.strip() if "=" in part else EVERY_REGISTER
        found = _AGE.match(age.strip())
        is_name = name == EVERY_REGISTER or is_register_name(name)
        if found is None or not is_name or name in ages:
            raise ValueError(
                "must be an age such as 36h or 7d, or one for each register, as in rdw=2d,*=7d"
            )
        ages[name] = int(found["number"]) * _UNIT_SECONDS[found["unit"]]
    return ages


def _job_ages(text: str) -> dict[str, int]:
    """Read `26h`, or `import=26h,backup=8d`, into seconds by job."""
    ages = _ages(text)
    if not ages.keys() <= {*JOBS, EVERY_REGISTER}:
        raise ValueError("must be an age such as 26h, or one for each job: import=26h,backup=8d")
    return ages


def _age(text: str) -> int:
    """Read `36h` or `7d`, or 0, into seconds."""
    found = _AGE.match(text)
    if found is None and text != "0":
        raise ValueError("must be an age such as 36h or 7d, or 0")
    return int(found["number"]) * _UNIT_SECONDS[found["unit"]] if found else 0


def _size(text: str) -> int:
    """Read `500M` or `10G` into bytes."""
    found = _SIZE.match(text)
    if found is None:
        raise ValueError("must be a size such as 500M or 10G")
    return int(found["number"]) * _UNIT_BYTES[found["unit"]]


def _choice(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"must be {', '.join(choices[:-1])} or {choices[-1]}")
        return text

    return parse


def _words(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _names(text: str) -> frozenset[str]:
    return frozenset(_words(text))


def _directory(text: str) -> Path | None:
    return Path(text) if text else None


def _file(text: str) -> Path | None:
    if text and not text.startswith("/"):
        raise ValueError("must be an absolute path")
    return Path(text) if text else None


def _default_workers() -> int:
    return min(os.cpu_count() or 1, 16) + 1


SETTINGS: Mapping[str, Setting] = {
    "database_url": Setting(
        "VERIFYD_DATABASE_URL",
        "sqlite:///verifyd.db",
        _database_url,
        "where the data is: `sqlite:///PATH` (`sqlite:////PATH` if absolute) or `postgresql://...`",
    ),
    "bind": Setting(
        "VERIFYD_BIND",
        "127.0.0.1:8000",
        _bind,
        "where `serve` listens: `ADDRESS:PORT` or `unix:/PATH`",
    ),
    "socket_group": Setting(
        "VERIFYD_SOCKET_GROUP",
        "",
        _group,
        "group of the Unix socket at which `serve` listens, by name or number; "
        "only it and the service's user can connect",
    ),
    "workers": Setting(
        "VERIFYD_WORKERS",
        str(_default_workers()),
        _integer(1, 64),
        "worker processes, 1 to 64; by default one more than the machine has cores",
    ),
    "state_dir": Setting(
        "VERIFYD_STATE_DIR",
        "",
        _directory,
        "directory for the rate limits' buckets and metrics, on this host and for "
        "one database, a tmpfs in production; by default `state/` beside the SQLite database",
    ),
    "data_dir": Setting(
        "VERIFYD_DATA_DIR",
        "",
        _directory,
        "directory on a disk for rejects files and queued alerts; by default the directory of the "
        "SQLite database, with Postgres `VERIFYD_STATE_DIR`",
    ),
    "drop_wait": Setting(
        "VERIFYD_DROP_WAIT",
        "quiet",
        _choice("quiet", "sha256", "done"),
        "what tells `import --drop` that a file is complete (D73): `sha256` or `done`, a file "
        "`NAME.sha256` or `NAME.done` beside it; `quiet`, one minute without a change",
    ),
    "keep_loaded": Setting(
        "VERIFYD_KEEP_LOADED",
        "7d",
        _age,
        "how long `import --drop` keeps files that it loaded in `loaded/` (D74): s, m, h or d; "
        "0 removes them at once",
    ),
    "keep_failed": Setting(
        "VERIFYD_KEEP_FAILED",
        "30d",
        _age,
        "how long it keeps files that could not be loaded in `failed/`; 0 removes them at once",
    ),
    "drop_limit": Setting(
        "VERIFYD_DROP_LIMIT",
        "10G",
        _size,
        "how much all `loaded/` directories hold together, and how much all `failed/` do; the "
        "oldest files go first: K, M, G or T",
    ),
    "backup_limit": Setting(
        "VERIFYD_BACKUP_LIMIT",
        "20G",
        _size,
        "how much the backups hold that `backup --keep` leaves; the oldest go first, the newest "
        "always stays (D74)",
    ),
    "timezone": Setting(
        "VERIFYD_TIMEZONE",
        "UTC",
        _timezone,
        "whose calendar says what day it is (D20), such as `Europe/London`",
    ),
    "trusted_proxies": Setting(
        "VERIFYD_TRUSTED_PROXIES",
        "",
        _networks,
        "addresses or networks whose `X-Real-IP` (D10) and `X-Request-ID` (D7) are believed, by "
        "commas; the peer on a Unix socket always is",
    ),
    "anonymous_limit": Setting(
        "VERIFYD_ANONYMOUS_LIMIT",
        "60",
        _integer(1, 1_000_000),
        "requests a minute without a valid key, for each address (D10): 1 to 1,000,000",
    ),
    "access_log": Setting(
        "VERIFYD_ACCESS_LOG", "on", _switch, "one JSON line a request on stdout: `on` or `off`"
    ),
    "register_order": Setting(
        "VERIFYD_REGISTER_ORDER",
        "native,dvsa,rdw,dvla,mid,nyc",
        _register_names,
        "precedence of the registers when two describe one vehicle (D26), by commas; "
        "others follow by name",
    ),
    "mot_first_years": Setting(
        "VERIFYD_MOT_FIRST_YEARS",
        "0",
        _integer(0, 10),
        "years after first registration before an MOT is due (D22): 0 (off) to 10; "
        "3 in Great Britain",
    ),
    "metrics_accounts": Setting(
        "VERIFYD_METRICS_ACCOUNTS",
        "",
        _names,
        "names of the accounts whose keys may read `/metrics` from another machine, by commas",
    ),
    "keep_snapshots": Setting(
        "VERIFYD_KEEP_SNAPSHOTS",
        "1",
        _integer(0, 30),
        "how many earlier states of a register `imports rollback` can go back to (D71): 0 to 30; "
        "each needs as much disk space as the register",
    ),
    "stale_after": Setting(
        "VERIFYD_STALE_AFTER",
        "8d",
        _ages,
        "age from which a register's last load is a warning (D51): `36h` or `7d` for all, or by "
        "register as in `rdw=2d,mid=36h,*=7d`; s, m, h or d",
    ),
    "loss_max": Setting(
        "VERIFYD_LOSS_MAX",
        "10",
        _integer(0, 100),
        "percentage points by which the share of rows that know a member may fall in one load "
        "(D67): 0 to 100",
    ),
    "missed_after": Setting(
        "VERIFYD_MISSED_AFTER",
        "26h",
        _job_ages,
        "time without a run after which a nightly job is reported as missed (D76): `26h` for both, "
        "or by job as in `import=26h,backup=8d`; a job that is not named is never missed",
    ),
    "certificate": Setting(
        "VERIFYD_CERTIFICATE",
        "",
        _file,
        "the TLS certificate, in PEM, that is reported when it expires within 14 days",
    ),
    "notify": Setting(
        "VERIFYD_NOTIFY",
        "",
        parse_destinations,
        "where alerts are sent (D77): `exec:/PATH`, `https://...` or `mailto:ADDRESS`, "
        "several separated by commas",
    ),
    "notify_secret": Setting(
        "VERIFYD_NOTIFY_SECRET",
        "",
        parse_secret,
        "the secret that signs what is sent to `https://...`: `whsec_`, then 24 to 64 bytes in "
        "base64",
    ),
}


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting, checked. Made by `Config.from_env()`; tests make it directly."""

    database_url: str = field(repr=False)  # SEC: it may hold a password.
    bind: str = "127.0.0.1:8000"
    socket_group: int | None = None
    """Its number; None for the group of the process."""
    workers: int = 2
    state_dir: Path = Path("state")
    data_dir: Path = Path("state")
    drop_wait: str = "quiet"
    keep_loaded: int = 7 * 86_400
    """Seconds; 0 keeps nothing."""
    keep_failed: int = 30 * 86_400
    """Seconds; 0 keeps nothing."""
    drop_limit: int = 10 << 30
    """Bytes of `loaded/`, and of `failed/`."""
    backup_limit: int = 20 << 30
    """Bytes."""
    timezone: tzinfo = UTC
    trusted_proxies: tuple[Network, ...] = ()
    anonymous_limit: int = 60
    access_log: bool = True
    register_order: tuple[str, ...] = ("native", "dvsa", "rdw", "dvla", "mid", "nyc")
    mot_first_years: int = 0
    metrics_accounts: Collection[str] = frozenset()
    """Names of the accounts whose keys may read the metrics from another machine (D80)."""
    keep_snapshots: int = 1
    loss_max: int = 10
    """Percentage points."""
    stale_after: Mapping[str, int] = field(default_factory=lambda: {EVERY_REGISTER: 8 * 86_400})
    """Seconds by register, those of all others under EVERY_REGISTER."""
    missed_after: Mapping[str, int] = field(default_factory=lambda: {EVERY_REGISTER: 26 * 3600})
    """Seconds by job, those of all others under EVERY_REGISTER."""
    certificate: Path | None = None
    notify: tuple[Destination, ...] = field(default=(), repr=False)  # SEC: URLs can hold tokens.
    notify_secret: bytes | None = field(default=None, repr=False)

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
        """Read the settings, defaults in place of wrong values; and say what is wrong.

        Each fault is a sentence that begins with the variable and a colon.
        """
        environ = _with_credentials(os.environ if environ is None else environ)
        values: dict[str, Any] = {}
        faults = []
        for name, setting in SETTINGS.items():
            try:
                values[name] = setting.parse(environ.get(setting.variable, setting.default).strip())
            except ValueError as error:
                values[name] = setting.parse(setting.default)
                faults.append(f"{setting.variable}: {error}")
        known = {setting.variable for setting in SETTINGS.values()}
        faults += [
            f"{variable}: no such setting"
            for variable in sorted(environ)
            if variable.startswith(PREFIX) and variable not in known
        ]
        values["state_dir"] = values["state_dir"] or _beside(values["database_url"])
        database = sqlite_path(values["database_url"])
        values["data_dir"] = values["data_dir"] or (
            database.parent if database else values["state_dir"]
        )
        return cls(**values), faults


def socket_address(bind: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    """Return the family and the address of `ADDRESS:PORT` or `unix:/PATH`."""
    if bind.startswith("unix:"):
        return socket.AF_UNIX, bind.removeprefix("unix:")
    host, _, port = bind.rpartition(":")
    family = socket.AF_INET6 if host.startswith("[") else socket.AF_INET
    return family, (host.strip("[]"), int(port))


def sqlite_path(database_url: str) -> Path | None:
    """Return the file a `sqlite:///PATH` URL names, or None for another engine."""
    prefix = "sqlite:///"
    return Path(database_url[len(prefix) :]) if database_url.startswith(prefix) else None


def _with_credentials(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Take secrets from systemd's credentials, where there are some and no variables (D49)."""
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
            # systemd 252 keeps credentials from conditions. Without the secret they go on;
            # without the database's URL another database would be taken.
            if name == "database_url":
                raise
    return {**environ, **found}


def _beside(database_url: str) -> Path:
    path = sqlite_path(database_url)
    return path.parent / "state" if path else Path("state")
