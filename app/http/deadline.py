"""What takes too long is given up, and answered as any failure is (D5, D45)."""

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

_GIVEN_UP = "verifyd.given_up"

Application = Callable[..., Iterable[bytes]]


class GivenUp(BaseException):
    """A request took too long: raised by a signal's handler, wherever the program is by then.

    NOTE: no Exception, because code that ignores those would ignore it and go on; nor a
    KeyboardInterrupt or SystemExit, at which psycopg would cancel the statement. A COMMIT that
    waits for the standby is done by that: everybody would see what only the primary has.
    """


class TookTooLong(Exception):
    """Stands for GivenUp in the framework, which answers Exceptions only."""


class Deadline:
    """A WSGI application whose answer to a request that was given up is its own, too.

    It is asked a second time, and middleware raises before anything of the request is done again.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self.is_answering = False
        """Whether it is the application that takes its time, not the client."""

    def __call__(self, environ: MutableMapping[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request."""
        self.is_answering = True
        try:
            return self._application(environ, start_response)
        except GivenUp as error:
            environ[_GIVEN_UP] = error
            return self._application(environ, start_response)
        finally:
            self.is_answering = False


def require_time(environ: MutableMapping[str, Any]) -> None:
    """Raise TookTooLong, from where it was then, if a request was given up."""
    given_up: GivenUp | None = environ.get(_GIVEN_UP)
    if given_up is not None:
        raise TookTooLong().with_traceback(given_up.__traceback__)
