"""Who is signed in to the console."""

from functools import partial

import falcon

from app.console.entrance import SignInRefused, clear_cookie, session_token, set_cookie
from app.console.rendering import (
    ConsoleRequest,
    PageError,
    Services,
    actor_of,
    redirect,
    session_of,
)
from app.console.sessions import (
    SESSION_SECONDS,
    LinkRefused,
    end_session,
    end_sessions,
    find_session,
    list_sessions,
    open_session,
    require_link,
)
from app.storage import reserve


class PeopleList:
    """The open sessions."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/people."""
        self._services.pages.send(
            req,
            resp,
            "people.html",
            sessions=list_sessions(self._services.engine),
            own=session_of(req),
            is_ended="ended" in req.params,
            idle_seconds=self._services.config.console_idle,
        )

    on_head = on_get


class SessionEnd:
    """The end of another person's session, or of one's own."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, session_id: str) -> None:
        """GET /console/people/{session_id}/end. Asks for confirmation."""
        session = find_session(self._services.engine, session_id)
        if session is None:
            raise _gone()
        self._services.pages.send(
            req,
            resp,
            "confirm.html",
            heading=f"End the session of {session.name}?",
            text=(
                "The browser with this session is signed out at its next click. Only a new link, "
                "from “verifyd console link”, lets it in again."
            ),
            button="End the session",
            back=("people",),
            is_dangerous=True,
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, session_id: str) -> None:
        """POST /console/people/{session_id}/end. Ending it twice is no mistake."""
        engine = self._services.engine
        reserve.with_reserve(engine, partial(end_session, engine, session_id, actor=actor_of(req)))
        redirect(req, resp, "people", ended=1)


def _gone() -> PageError:
    return PageError(
        404, "There is no such session", "It has ended, or never was.", back=("people",)
    )


# Sign-in by a link, and sign-out (D132).


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
        idle_seconds = self._services.config.console_idle
        self._services.pages.send(
            req, resp, "sign_in.html", link=link, hours=hours, idle_seconds=idle_seconds
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, token: str) -> None:
        """POST /console/sign-in/{token}. Uses the link up, and opens the overview."""
        engine, config = self._services.engine, self._services.config
        try:
            # Whoever frees a full disk must get in (D57).
            opened = reserve.with_reserve(
                engine,
                partial(
                    open_session,
                    engine,
                    token,
                    idle_seconds=config.console_idle,
                    former=session_token(req, config.trusted_proxies),
                ),
            )
        except LinkRefused as refused:
            raise SignInRefused("This link does not work", str(refused)) from None
        set_cookie(req, resp, config.trusted_proxies, opened)
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
        _send_away(self._services, req, resp, "Your session has ended on this browser.")


class SignOutEverywhere:
    """The end of all sessions of the person's name."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/sign-out/everywhere. Asks for confirmation."""
        name = session_of(req).name
        self._services.pages.send(
            req,
            resp,
            "confirm.html",
            heading=f"Sign {name} out everywhere?",
            text=(
                f"Every browser that is signed in as {name} is signed out, this one too. Links for "
                f"{name} that nobody has used stop working."
            ),
            button="Sign out everywhere",
            back=("people",),
            is_dangerous=True,
        )

    on_head = on_get

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/sign-out/everywhere."""
        engine, actor = self._services.engine, actor_of(req)
        reserve.with_reserve(engine, partial(end_sessions, engine, actor.name, actor=actor))
        text = f"All sessions of {actor.name} have ended."
        _send_away(self._services, req, resp, text)


def _send_away(services: Services, req: ConsoleRequest, resp: falcon.Response, text: str) -> None:
    clear_cookie(req, resp, services.config.trusted_proxies)
    req.context.session = None
    services.pages.send(req, resp, "signed_out.html", heading="You are signed out", text=text)
