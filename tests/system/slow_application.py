"""The application, with requests that take it too long."""

import time
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.types import StartResponse

from app.main import create_app as create_quick_app

_SECONDS = 30


def create_app() -> Callable[..., Iterable[bytes]]:
    """Return the application; requests with the query `slowly` take half a minute."""
    application = create_quick_app()
    begun: set[int] = set()

    def answer(environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        # A request that was given up comes a second time.
        if environ["QUERY_STRING"] == "slowly" and id(environ) not in begun:
            begun.add(id(environ))
            ends_at = time.monotonic() + _SECONDS
            while time.monotonic() < ends_at:
                time.sleep(0.01)
        return application(environ, start_response)

    return answer
