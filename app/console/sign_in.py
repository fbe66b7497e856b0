"""Sign-in by a link, and sign-out (D132)."""

from functools import partial

import falcon

from app.console.context import ConsoleRequest, Services, actor_of, session_of
from app.console.entrance import SignInRefused, clear_cookie, set_cookie
from app.console.rendering import redirect
from app.console.sessions import (
    SESSION_SECONDS,
    LinkRefused,
    end_session,
    open_session,
    require_link,
)
from app.storage import reserve


class SignIn:
    """A link that opens a session. Only a POST uses it up: mail scanners follow links."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, token: str) -> None:
        """GET /console/sign-in/{token}. Shows a button; Entrance has refused wrong links."""
        try:
            link = require_link(self._services.engine, token)
        except LinkRefused as refused:  # Somebody has used it a moment ago.
            raise SignInRefused("This link does not work", str(refused)) from None
        hours = SESSION_SECONDS // 3600
        self._services.pages.send(req, resp, "sign_in.html", link=link, hours=hours)

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, token: str) -> None:
        """POST /console/sign-in/{token}. Uses the link up, and opens the overview."""
        engine = self._services.engine
        try:
            # Whoever frees a full disk must get in (D57).
            session_token = reserve.with_reserve(engine, partial(open_session, engine, token))
        except LinkRefused as refused:
            raise SignInRefused("This link does not work", str(refused)) from None
        set_cookie(req, resp, self._services.config.trusted_proxies, session_token)
        redirect(req, resp)


class SignOut:
    """The end of the person's own session."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/sign-out."""
        engine, session = self._services.engine, session_of(req)
        # A session can be ended on a full disk, too (D57).
        reserve.with_reserve(engine, partial(end_session, engine, session.id, actor=actor_of(req)))
        clear_cookie(req, resp, self._services.config.trusted_proxies)
        req.context.session = None
        text = "Your session has ended on this browser."
        self._services.pages.send(
            req, resp, "signed_out.html", heading="You are signed out", text=text
        )
