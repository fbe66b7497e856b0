"""The people who are signed in to the console; sign-in by link or directory, and sign-out."""

import shlex
from collections.abc import Callable

import falcon

from app.console.entrance import SessionCookie
from app.console.form_pages import ConfirmationText, ask
from app.console.rendering import ConsoleRequest, Values
from app.console.resources import LOOK_UP, Resource, missing, redirect, view
from app.own_command import INSTALLED, as_run_here
from app.people.directory import Person, directory_of
from app.people.plates import PlateLimits
from app.people.sessions import (
    SESSION_SECONDS,
    ConsoleLink,
    admit,
    end_session,
    end_sessions,
    find_session,
    list_sessions,
    open_session,
    require_link,
)
from app.settings.roles import Right
from app.storage import reserve

_PLACE = "people"
_NEEDS_LINK = (
    f"Only a new link lets it in again: “{as_run_here(INSTALLED)} console link "
    "--as {name} --role {role}”."
)
_STILL_LISTED = (
    "It comes in again by your directory, unless you remove the person from the groups there."
)


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
        link = _NEEDS_LINK.format(name=shlex.quote(session.name), role=session.role)
        question = ConfirmationText(
            f"End the session of {session.name}?",
            "The browser with this session is signed out at its next click. "
            + (_STILL_LISTED if directory_of(self.config) else link),
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
        return _offer(self, require_link(self.engine, token))

    def on_post(self, req: ConsoleRequest, resp: falcon.Response, token: str) -> None:
        """POST /console/sign-in/{token}. Uses the link up, and opens the overview."""
        _let_in(self, req, resp, open_session, token)


class ProxySignIn(Resource):
    """The sign-in of people whom a proxy has identified (D189).

    A session opens by POST only: browsers fetch pages ahead, and send no `SameSite=Strict` cookie
    where the directory's own page leads back.
    """

    @view("sign_in.html")
    def on_get(self, req: ConsoleRequest, resp: falcon.Response) -> Values:
        """GET /console/sign-in/proxy. Shows a button; Entrance has refused everybody else."""
        return _offer(self, _identified(req))

    def on_post(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """POST /console/sign-in/proxy. Opens a session, and the overview."""
        _let_in(self, req, resp, admit, _identified(req))


def _identified(req: ConsoleRequest) -> Person:
    person = req.context.person
    assert person is not None  # noqa: S101 - Entrance has refused requests without a person
    return person


def _offer(resource: Resource, person: Person | ConsoleLink) -> Values:
    hours, idle_seconds = SESSION_SECONDS // 3600, resource.config.console_idle
    return {"person": person, "hours": hours, "idle_seconds": idle_seconds}


def _let_in(
    resource: Resource,
    req: ConsoleRequest,
    resp: falcon.Response,
    opening: Callable[..., str],
    by: str | Person,
) -> None:
    """Open a session by a link or for a person, and lead to the overview."""
    cookie = SessionCookie(resource.config.trusted_proxies)
    former, idle_seconds = cookie.token(req), resource.config.console_idle
    # A person who frees a full disk must get in (D57).
    token = reserve.with_reserve(
        resource.engine, opening, resource.engine, by, idle_seconds=idle_seconds, former=former
    )
    cookie.give(req, resp, token)
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
        question = ConfirmationText(
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
    values = {"heading": "You are signed out", "text": text, "is_signing_out": True}
    resource.show(req, resp, "signed_out.html", values)
