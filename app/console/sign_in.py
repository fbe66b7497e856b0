"""The people who are signed in to the console; sign-in by a link, and sign-out."""

import falcon

from app.console.entrance import SessionCookie
from app.console.form_pages import Question, ask
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import LOOK_UP, Resource, missing, redirect, view
from app.people.plates import PlateLimits
from app.people.sessions import (
    SESSION_SECONDS,
    end_session,
    end_sessions,
    find_session,
    list_sessions,
    open_session,
    require_link,
)
from app.roles import Right
from app.storage import reserve

_PLACE = "people"


class PeopleList(Resource):
    """The open sessions, and how many plates people have looked up today."""

    @view("people.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values:
        """GET /console/people."""
        return {
            "sessions": list_sessions(self.engine),
            "own": req.session,
            "is_ended": "ended" in req.params,
            "idle_seconds": self.config.console_idle,
            "limits": self.config.console_limits,
            "asked": PlateLimits(self.engine, self.config).today(),
        }


class SessionEnd(Resource):
    """The end of another person's session, or of one's own."""

    def on_get(self, req: ConsoleRequest, resp: falcon.Response, session_id: str) -> None:
        """GET /console/people/{session_id}/end. Asks for confirmation."""
        session = find_session(self.engine, session_id)
        if session is None:
            raise missing("session", "It has ended, or never was.", _PLACE)
        question = Question(
            f"End the session of {session.name}?",
            "The browser with this session is signed out at its next click. Only a new link, from "
            "“verifyd console link”, lets it in again.",
            "End the session",
        )
        ask(self, req, resp, question, _PLACE)

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, session_id: str) -> None:
        """POST /console/people/{session_id}/end. Ending it twice is no mistake."""
        reserve.with_reserve(self.engine, end_session, self.engine, session_id, actor=req.actor)
        redirect(req, resp, _PLACE, ended=1)


class SignIn(Resource):
    """A link that opens a session. Only a POST uses the link up: mail scanners follow links."""

    @view("sign_in.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response, token: str) -> Values:
        """GET /console/sign-in/{token}. Shows a button; Entrance has refused wrong links."""
        link = require_link(self.engine, token)
        hours = SESSION_SECONDS // 3600
        return {"link": link, "hours": hours, "idle_seconds": self.config.console_idle}

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, token: str) -> None:
        """POST /console/sign-in/{token}. Uses the link up, and opens the overview."""
        cookie = SessionCookie(self.config.trusted_proxies)
        former, idle_seconds = cookie.token(req), self.config.console_idle
        # A person who frees a full disk must get in (D57).
        opened = reserve.with_reserve(
            self.engine, open_session, self.engine, token, idle_seconds=idle_seconds, former=former
        )
        cookie.give(req, resp, opened)
        redirect(req, resp)


class SignOut(Resource):
    """The end of the person's own session."""

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/sign-out."""
        # A session can be ended on a full disk, too (D57).
        reserve.with_reserve(self.engine, end_session, self.engine, req.session.id, actor=req.actor)
        _show_signed_out(self, req, resp, "Your session has ended on this browser.")


class SignOutEverywhere(Resource):
    """The end of all sessions of the person's name."""

    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """GET /console/sign-out/everywhere. Asks for confirmation."""
        name = req.session.name
        question = Question(
            f"Sign {name} out everywhere?",
            f"Every browser that is signed in as {name} is signed out, this one too. Links for "
            f"{name} that nobody has used stop working.",
            "Sign out everywhere",
        )
        ask(self, req, resp, question, _PLACE if req.session.may(Right.READ) else LOOK_UP)

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/sign-out/everywhere."""
        actor = req.actor
        reserve.with_reserve(self.engine, end_sessions, self.engine, actor.name, actor=actor)
        _show_signed_out(self, req, resp, f"All sessions of {actor.name} have ended.")


def _show_signed_out(
    resource: Resource, req: ConsoleRequest, resp: falcon.Response, text: str
) -> None:
    SessionCookie(resource.config.trusted_proxies).clear(req, resp)
    req.context.session = None
    resource.show(req, resp, "signed_out.html", {"heading": "You are signed out", "text": text})
