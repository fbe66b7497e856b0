"""The check of each request of the console: session, link, person, right and origin."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import falcon
import peewee

from app.config import Config
from app.console.forms import is_reload
from app.console.rendering import ASSETS_PATH, ROOT, ConsoleRequest
from app.console.resources import LOOK_UP, PageError, redirect
from app.errors import Problem
from app.people.directory import Directory, NoRole, NotIdentified, Person, directory_of
from app.people.sessions import SESSION_SECONDS, LinkRefused, Session, Sessions, require_link
from app.serve.http.address import base_url, comes_from_proxy, scheme_of
from app.serve.http.context import REPEATED
from app.settings.roles import RIGHTS, Right, Role
from app.settings.values import Network
from app.storage import reserve
from app.storage.engine import Engine

SIGN_IN = f"{ROOT}/sign-in/"
PROXY = f"{SIGN_IN}proxy"
"""The only path where a proxy says who somebody is (D189)."""
_STATED = ("HTTP_X_VERIFYD_PROXY_SECRET", "HTTP_X_VERIFYD_USER", "HTTP_X_VERIFYD_GROUPS")
_NOT_SIGNED_IN = "You are not signed in"
_READING = ("GET", "HEAD", "OPTIONS")
_SAME_SITES = ("same-origin", "none")
"""`none`: the person acted in the browser itself, such as sending a form again."""

Rights = Mapping[str, Right | None]
"""The right that each method needs; None if the method needs no session."""


class SignInRefused(Problem):
    """A request without a session; `heading` says why in a few words."""

    def __init__(self, heading: str, detail: str = "", code: str = "unauthorized") -> None:
        challenge = {"WWW-Authenticate": 'Cookie realm="console"'} if code == "unauthorized" else {}
        super().__init__(code, detail, headers=challenge)
        self.heading = heading


class Entrance:
    """Finds the session of a request, and refuses pages that the person has no right to.

    A wrong cookie or link, or a person without a role, sets `req.context.refusal`: Limits, the
    next middleware, charges the client's address and raises the refusal.

    Args:
        rights: the rights that each resource needs, by its type.
    """

    def __init__(self, engine: Engine, config: Config, rights: Mapping[type, Rights]) -> None:
        self._engine = engine
        self._sessions = Sessions(engine, config.console_idle)
        self._trusted_proxies = config.trusted_proxies
        self._cookie = SessionCookie(config.trusted_proxies)
        self._rights = rights
        self._directory = directory_of(config)

    def process_request(self, req: ConsoleRequest, resp: falcon.Response) -> None:
        """Set `req.context.session` or, at PROXY, `req.context.person`; or `req.context.refusal`.

        Raises SignInRefused if there is no cookie, PageError for a form of another site, and
        falcon.HTTPNotFound for a path with control characters.
        """
        context = req.context
        is_open = req.path == "/" or req.path.startswith(ASSETS_PATH)
        if context.refusal is not None or is_open:
            return
        if not req.path.isprintable():  # Postgres stores no NUL, and no page has such a path.
            raise falcon.HTTPNotFound
        if req.method not in _READING:
            self._require_same_origin(req)
        if req.path.startswith(SIGN_IN):
            context.refusal = self._sign_in_refusal(req)
            return
        token = self._cookie.token(req)
        if not token:
            raise SignInRefused(_NOT_SIGNED_IN)
        context.session = self._sessions.find(token)
        if context.session is not None:
            self._note_use(req, context.session)
        else:
            context.refusal = SignInRefused("Your session has ended")
            self._cookie.clear(req, resp)

    def process_resource(
        self, req: ConsoleRequest, resp: falcon.Response, resource: object, params: object
    ) -> None:
        """Refuse a method that the person's role has no right to.

        The overview leads who may not read it to the look-up page.

        Raises PageError; SignInRefused if there is no session, whatever let the request in.
        """
        method = "GET" if req.method == "HEAD" else req.method
        right = self._rights[type(resource)].get(method)
        if right is None:  # The method is open to everybody, or the resource does not have it.
            return
        session = req.context.session
        if session is None:
            raise SignInRefused(_NOT_SIGNED_IN)
        if session.may(right):
            return
        if req.path == ROOT:
            redirect(req, resp, LOOK_UP)
            resp.complete = True
            return
        needed = " or ".join(role for role in Role if right in RIGHTS[role])
        raise PageError(
            403,
            "You may not do that",
            f"This takes the role {needed}; you are signed in as {session.role}.",
        )

    def _sign_in_refusal(self, req: ConsoleRequest) -> SignInRefused | None:
        """Return why nobody can sign in by a link or, at PROXY, by the directory; None if one can.

        Sets `req.context.person` in the latter case.
        """
        try:
            if req.path == PROXY and self._directory is not None:
                req.context.person = self._identified(req, self._directory)
            else:
                require_link(self._engine, req.path.removeprefix(SIGN_IN))
        except LinkRefused as refused:
            return link_refusal(refused)
        except NotIdentified as refused:
            text = f"{refused} Tell whoever runs this service."
            return SignInRefused("You were not identified", text)
        except NoRole as refused:
            text = f"{refused} Ask whoever looks after your directory."
            return SignInRefused("You may not use the console", text, "forbidden")
        return None

    def _identified(self, req: ConsoleRequest, directory: Directory) -> Person:
        """Return whom a proxy has identified. Raises NotIdentified or NoRole."""
        if not comes_from_proxy(req, self._trusted_proxies):
            raise NotIdentified("This request did not come from a proxy that the service trusts.")
        # SEC: a proxy that adds its header to that of a client would let clients choose.
        if not req.env.get(REPEATED, frozenset()).isdisjoint(_STATED):
            raise NotIdentified("The proxy sent a header twice.")
        return directory.person(*(req.env.get(name, "") for name in _STATED))

    def _note_use(self, req: ConsoleRequest, session: Session) -> None:
        """Note that a person used a session. A page that loads itself again is no use."""
        if is_reload(req):
            return
        try:
            # A person who frees a full disk must stay signed in (D57).
            reserve.with_reserve(self._engine, self._sessions.note_use, session)
        except (peewee.DatabaseError, peewee.InterfaceError) as error:
            # The page may work all the same. Otherwise its own statements fail, too.
            self._engine.recover(error)

    def _require_same_origin(self, req: ConsoleRequest) -> None:
        """Refuse a form that another site has sent. Raises PageError.

        SEC: browsers set both headers, and no page can change them. Without TLS, browsers send
        `Sec-Fetch-Site` only to this host.
        """
        site = req.env.get("HTTP_SEC_FETCH_SITE")
        if site is None:
            origin = req.env.get("HTTP_ORIGIN")
            is_own = origin is not None and origin == base_url(req, self._trusted_proxies)
        else:
            is_own = site in _SAME_SITES
        if not is_own:
            raise PageError(
                403,
                "This form was not sent from the console",
                "Nothing was changed. Open the page in the console, and send the form there.",
            )


def link_refusal(refused: LinkRefused) -> SignInRefused:
    """Return the answer to a link that opens no session."""
    return SignInRefused("This link does not work", str(refused))


class SessionCookie(NamedTuple):
    """The cookie that holds the token of a session."""

    trusted_proxies: Sequence[Network]

    def name(self, req: falcon.Request) -> str:
        """Return the name of the cookie, which depends on whether the client uses TLS.

        SEC: browsers accept `__Host-` only over TLS and only from this very host, so that neither
        an attacker on the network nor another host of the domain can set the cookie.
        """
        is_tls = scheme_of(req, self.trusted_proxies) == "https"
        return "__Host-verifyd-console" if is_tls else "verifyd-console"

    def token(self, req: falcon.Request) -> str:
        """Return the token that a browser has sent; empty if there is none."""
        return next(iter(req.get_cookie_values(self.name(req)) or ()), "")

    def give(
        self,
        req: falcon.Request,
        resp: falcon.Response,
        token: str,
        seconds: int = SESSION_SECONDS,
    ) -> None:
        """Give the browser a token."""
        name = self.name(req)
        # `__Host-` demands the path /, and a proxy may have a path prefix.
        guards = "; Path=/; HttpOnly; SameSite=Strict" + "; Secure" * name.startswith("__Host-")
        # NOTE: not set_cookie(), which omits `Max-Age=0`: browsers would keep the empty cookie.
        resp.append_header("Set-Cookie", f"{name}={token}; Max-Age={seconds}{guards}")

    def clear(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Make the browser forget the token."""
        self.give(req, resp, "", 0)
