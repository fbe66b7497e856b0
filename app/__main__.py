"""Entry point of every command: `verifyd`, `python -m app`, and the binary."""

import gc
import io
import signal
import sys

_IS_CTRL_C_ENABLED = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _IS_CTRL_C_ENABLED:
    # Until main() can catch KeyboardInterrupt, Ctrl-C ends the process at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run() -> None:
    """Run the command that the arguments name, and exit with its status."""
    from app.processes import keep_unpacked_files, open_standard_streams  # noqa: PLC0415

    open_standard_streams()  # Before anything opens a file.
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Letters that a locale without UTF-8 lacks are escaped, as Python does on stderr.
        sys.stdout.reconfigure(errors="backslashreplace")
    from app.cli import main  # noqa: PLC0415 - slow: Ctrl-C must work meanwhile
    from app.logs import log_unexpected  # noqa: PLC0415

    keep_unpacked_files()
    log_unexpected()
    try:
        sys.exit(main(catch_ctrl_c=_IS_CTRL_C_ENABLED))
    finally:
        # PERF: spare Python's last search for garbage, which takes 80 of a command's 290 ms, and
        # 200 ms in each worker of a service: touching objects after a fork copies their pages.
        gc.freeze()


if __name__ == "__main__":
    run()
