"""Pages that load themselves again while something runs, also without JavaScript."""

from urllib.parse import urlencode

import falcon

REFRESH_SECONDS = 3
_MEMBER = "refresh"
_OFF, _AUTO = "off", "auto"


def refresh(
    req: falcon.Request,
    resp: falcon.Response,
    *,
    is_running: bool,
    seconds: int = REFRESH_SECONDS,
) -> bool:
    """Make the browser load the page again, unless the person has stopped that.

    Whoever needs more time to read adds `refresh=off` with a link (WCAG 2.2.2). It is a header
    because checkers of accessibility refuse the element of HTML, with or without such a link.

    Args:
        is_running: whether the page can change by itself.
        seconds: until the browser loads it.

    Returns whether it does.
    """
    does = is_running and req.params.get(_MEMBER) != _OFF
    if does:
        query = urlencode({**req.params, _MEMBER: _AUTO}, doseq=True)
        resp.set_header("Refresh", f"{seconds}; url=?{query}")
    return does


def is_reload(req: falcon.Request) -> bool:
    """Tell whether the browser loads a page again by itself, without a person (D132)."""
    return req.params.get(_MEMBER) == _AUTO
