"""Every path needs a key, except the open paths; other areas refuse restricted keys (D178)."""

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import falcon

from app.accounts.authentication import Authenticator, Caller
from app.accounts.tokens import length_of, parse_token
from app.errors import KEY_PREFIX, Problem
from app.serve.http.address import client_address, is_local
from app.serve.http.context import Request
from app.settings import values as setting_values
from app.settings.values import Address, Network

OPEN_PATHS = frozenset(
    {"/", "/docs", "/docs.md", "/docs/errors", "/docs/try", "/openapi.json", "/healthz", "/readyz"}
)
_OPEN_PREFIX = "/docs/"
METRICS_PATH = "/metrics"
_CHALLENGE = {"WWW-Authenticate": "Bearer"}
_PARSED_MAX = 256


def is_open(path: str) -> bool:
    """Tell whether a path is answered without a key."""
    return path in OPEN_PATHS or path.startswith(_OPEN_PREFIX)


class Authentication:
    """Finds the account of the presented key before the path is checked, and what the key may do.

    Args:
        areas: for each path template the areas of operations that it belongs to.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        trusted_proxies: Sequence[Network],
        areas: Mapping[str, Collection[str]],
    ) -> None:
        self._authenticator = authenticator
        self._trusted_proxies = trusted_proxies
        self._areas = areas

    def process_request(self, req: Request, resp: falcon.Response) -> None:
        """Set `req.context.caller`, or on paths that are not open `req.context.refusal`.

        Limits, the next middleware, charges the address then, and raises the refusal. Problem
        unauthorized says what is wrong with the headers or with the format of the key. Unknown,
        expired and revoked keys are not distinguished (D2). Problem address_forbidden refuses a key
        that is restricted to other networks.
        """
        if req.context.refusal is not None or is_open(req.path):
            return
        if req.path == METRICS_PATH and is_local(req, self._trusted_proxies):
            return
        caller = find_caller(self._authenticator, req)
        if caller is None:
            req.context.refusal = unauthorized(req)
        elif not is_admitted(caller, req, self._trusted_proxies):
            # SEC: nothing that a stolen key is used for elsewhere may charge its account.
            req.context.refused_key = caller.key_id
            address = client_address(req, self._trusted_proxies)
            req.context.refusal = Problem("address_forbidden", _address_fault(address))
        else:
            req.context.caller = caller

    def process_resource(
        self, req: Request, resp: falcon.Response, resource: object, params: object
    ) -> None:
        """Refuse a key that is restricted to another area; its account was charged.

        Raises Problem operation_forbidden.
        """
        caller = req.context.caller
        if caller is None or not caller.only:
            return
        if caller.only not in self._areas[req.uri_template or ""]:
            detail = f"The key may be used only for {caller.only}, not for this operation."
            raise Problem("operation_forbidden", detail)


def unauthorized(req: Request) -> Problem:
    """Return the refusal of a request without the key of an account."""
    return Problem("unauthorized", _fault(req), headers=_CHALLENGE)


def is_admitted(caller: Caller, req: Request, trusted_proxies: Sequence[Network]) -> bool:
    """Tell whether a key may be used from the address of the request."""
    if not caller.networks:
        return True
    address = client_address(req, trusted_proxies)
    return address is not None and any(address in each for each in _networks(caller.networks))


# Few of them are in use at once, and each takes up to 10 KB.
_networks = lru_cache(_PARSED_MAX)(setting_values.networks)


def _address_fault(address: Address | None) -> str:
    if address is None:
        return "The key may be used only from certain networks, and your address is not known."
    # The address, because a proxy that is not trusted is the usual cause. SEC: not the networks.
    return f"The key may not be used from the address {address}."


def _fault(req: Request) -> str:
    """Return sentences about the headers, which reveal nothing about existing keys."""
    fault = _header_fault(req)
    if KEY_PREFIX in req.query_string or KEY_PREFIX in req.path:
        fault += " The key in the address does not count, and may be in logs: replace it."
    return fault


def _header_fault(req: Request) -> str:
    authorization, api_key = req.env.get("HTTP_AUTHORIZATION"), req.env.get("HTTP_X_API_KEY")
    if authorization is None and api_key is None:
        return "An API key is needed, as `Authorization: Bearer KEY` or `X-API-Key: KEY`."
    if authorization is not None and api_key is None:
        scheme, _, key = authorization.strip().partition(" ")
        if scheme.lower() != "bearer":
            return "The header Authorization must be `Bearer`, a space and the key."
        if not key.strip():
            return "The header Authorization has no key after `Bearer`."
    if api_key is not None and not api_key.strip():
        return "The header X-API-Key is empty."
    presented = presented_keys(req)
    if len(presented) > 1:
        return "Two different API keys were sent, in Authorization and X-API-Key. Send one."
    return _key_fault(presented.pop(), in_authorization=api_key is None)


def _key_fault(key: str, *, in_authorization: bool) -> str:
    """Return a sentence about a key that does not work."""
    if "," in key:
        return "The header with the API key was sent twice, or has two keys. Send one."
    if not key.startswith(KEY_PREFIX):
        return _beginning_fault(key, in_authorization=in_authorization)
    if any(map(str.isspace, key)):
        return "The API key has a space or tab inside. Send it without."
    length = length_of(key)
    if len(key) != length:
        fault = "not complete" if len(key) < length else "too long"
        return f"The API key is {fault}: such keys have {length} characters; got {len(key):,}."
    if parse_token(key) is None:
        return "The API key is mistyped: its last six characters do not fit the others."
    return "The API key is unknown, expired or revoked, or its account is suspended."


def _beginning_fault(key: str, *, in_authorization: bool) -> str:
    """Return a sentence about a key that does not begin like one."""
    if key.lower().startswith("bearer "):
        if in_authorization:
            return "The header Authorization has `Bearer` twice."
        return "X-API-Key takes the key alone, without `Bearer`."
    if key.lower().startswith("x-api-key"):
        return "The header X-API-Key has its own name in its value. Send `X-API-Key: KEY`."
    if key.startswith("$"):
        return "The API key is the name of a shell variable. Use double quotes in the command."
    if KEY_PREFIX in key:
        return f"The API key has something before its `{KEY_PREFIX}`, such as a quote."
    return f"The API key has another format: keys begin with `{KEY_PREFIX}`."


def find_caller(authenticator: Authenticator, req: Request) -> Caller | None:
    """Return the account of the request's key; None unless there is exactly one valid key."""
    authorization: str | None = req.env.get("HTTP_AUTHORIZATION")
    api_key: str | None = req.env.get("HTTP_X_API_KEY")
    # PERF: nearly all requests have one header. A set takes a microsecond more.
    if api_key is None and authorization is not None and authorization.startswith("Bearer "):
        return authenticator.find_caller(authorization[7:].strip())
    if authorization is None and api_key is not None:
        return authenticator.find_caller(api_key.strip())
    presented = presented_keys(req)
    return authenticator.find_caller(presented.pop()) if len(presented) == 1 else None


def presented_keys(req: Request) -> set[str]:
    """Return the different keys of both headers; an unusable header counts as an empty key.

    A header given twice reaches the application as one, joined by a comma, which no key holds.
    Beside `X-API-Key`, clients send another Authorization by themselves, such as Basic from
    `.netrc`. It counts only if it has a key of verifyd (D2).
    """
    keys = set()
    authorization, api_key = req.env.get("HTTP_AUTHORIZATION"), req.env.get("HTTP_X_API_KEY")
    if authorization is not None:
        scheme, _, key = authorization.strip().partition(" ")
        if scheme.lower() == "bearer":
            keys.add(key.strip())
        elif api_key is None:
            keys.add("")
        else:
            words = authorization.replace(",", " ").split()
            keys.update(word for word in words if word.startswith(KEY_PREFIX))
    if api_key is not None:
        keys.add(api_key.strip())
    return keys
