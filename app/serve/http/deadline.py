"""Requests that take too long are given up, and answered like any other failure (D5, D45)."""

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

_GIVEN_UP = "verifyd.given_up"

Environ = MutableMapping[str, Any]
"""Of a WSGI request: values of any type, by name."""
Application = Callable[..., Iterable[bytes]]


class GivenUp(BaseException):
    """A request took too long; raised by the handler of a signal, wherever the program is.

    NOTE: it is not an Exception, because code that ignores those would ignore it and go on. It is
    no KeyboardInterrupt or SystemExit either, because psycopg cancels the statement for those:
    a COMMIT that waits for the standby would end, and others would see what only the primary has.
    """


class TookTooLong(Exception):
    """Stands for GivenUp within Falcon, which turns only Exceptions into answers."""


class Deadline:
    """A WSGI application that also answers the requests that are given up.

    It is called a second time with such a request. Then the middleware raises TookTooLong before
    anything of the request is done again.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self.is_answering = False
        """Whether the application is working, rather than waiting for the client."""

    def __call__(self, environ: Environ, start_response: Callable[..., object]) -> Iterable[bytes]:
        """Answer a request."""
        self.is_answering = True
        try:
            return self._application(environ, start_response)
        except GivenUp as error:
            environ[_GIVEN_UP] = error
            return self._application(environ, start_response)
        finally:
            self.is_answering = False


def require_time(environ: Environ) -> None:
    """Raise TookTooLong, with the stack of the moment, if the request was given up."""
    given_up: GivenUp | None = environ.get(_GIVEN_UP)
    if given_up is not None:
        raise TookTooLong().with_traceback(given_up.__traceback__)
