"""Settings that systemd hands to a unit as files, its credentials (D49)."""

from collections.abc import Mapping
from pathlib import Path

_URL = "VERIFYD_DATABASE_URL"
_VARIABLES = {"database_url": _URL, "notify_secret": "VERIFYD_NOTIFY_SECRET"}
"""The variable that each credential stands for."""


def with_credentials(environ: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables, and the value of each credential whose variable is not set.

    Raises OSError if the credential of the database's URL cannot be read.
    """
    directory = environ.get("CREDENTIALS_DIRECTORY")
    if directory is None:
        return environ
    found = {}
    for name, variable in _VARIABLES.items():
        credential = Path(directory) / name
        try:
            if variable not in environ and credential.exists():
                found[variable] = credential.read_text(encoding="utf-8", errors="replace")
        except OSError:
            # systemd 252 denies access to credentials while it checks the conditions of a unit.
            # A condition can be checked without the secret, but not without the URL: the
            # command would use another database.
            if variable == _URL:
                raise
    return {**environ, **found}
