"""The application, with requests that take it too long."""

import time
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import StartResponse

from app.main import create_app as create_quick_app

_BEGUN = "tests.begun"
_SECONDS = {"slowly": 30.0, "briefly": 0.25}


def create_app() -> Callable[..., Iterable[bytes]]:
    """Return the application; the queries `slowly` and `briefly` are how long a request takes."""
    application = create_quick_app()

    def answer(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        # A request that was given up comes a second time.
        seconds = _SECONDS.get(environ["QUERY_STRING"])
        if seconds is not None and _BEGUN not in environ:
            environ[_BEGUN] = True
            ends_at = time.monotonic() + seconds
            while time.monotonic() < ends_at:
                time.sleep(0.01)
        return application(environ, start_response)

    # The server starts it.
    answer.unit = application.unit  # type: ignore[attr-defined]
    answer.usage = application.usage  # type: ignore[attr-defined]
    answer.measures = application.measures  # type: ignore[attr-defined]
    return answer
