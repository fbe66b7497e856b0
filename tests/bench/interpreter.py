"""Says which Python a benchmark measures: a release has an optimised one."""

import subprocess
import sys

_SCRIPT = """
import platform, sys, sysconfig
given = sysconfig.get_config_var("CONFIG_ARGS") or ""
told = platform.python_version()
if "--enable-optimizations" in given:
    told += " with PGO"
elif sys.base_prefix == "/usr":
    told += " of the system"
else:
    told += " without PGO, which costs about 1.15 (look-ups) to 1.27 (loads) of a release's time"
print(told)
"""


def description(interpreter: str = sys.executable) -> str:
    """Return the version of an interpreter and how it was built, such as `3.13.5 with PGO`.

    The systems' own are optimised, although their configuration does not say so.
    """
    words = [interpreter, "-c", _SCRIPT]
    return subprocess.check_output(words, text=True).strip()
