"""Who is signed in to the console."""

from functools import partial

import falcon

from app.console.context import ConsoleRequest, PageError, Services, actor_of, session_of
from app.console.rendering import redirect
from app.console.sessions import end_session, find_session, list_sessions
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
