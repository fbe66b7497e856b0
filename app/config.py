"""Reads the settings from the environment, which no other module does.

`app/settings.py` declares them. All wrong settings are reported at once.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from app.credentials import with_credentials
from app.errors import OperatorError
from app.setting_values import Setting
from app.settings import Settings

PREFIX = "VERIFYD_"


class ConfigError(OperatorError):
    """One or more settings are wrong; `faults` holds a sentence for each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass(frozen=True, slots=True)
class Config(Settings):
    """All settings, checked. `Config.from_env()` creates it; tests create it directly."""

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
"""The settings by field name, in the order of the table in deploy/REFERENCE.md."""


def is_set(name: str) -> bool:
    """Tell whether a setting has a value of its own, given the name of its field."""
    return SETTINGS[name].variable in with_credentials(os.environ)


def sudo_user() -> str | None:
    """Return who ran this command with sudo, as the environment says; None without sudo."""
    return os.environ.get("SUDO_USER")
