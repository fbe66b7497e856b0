"""Methods of known paths, and bodies where none is needed (D1, D5)."""

from collections.abc import Mapping, Sequence
from functools import cache

import falcon

from app.errors import Problem
from app.serve.http.bodies import refuse_broken_body
from app.serve.http.context import Request
from app.serve.http.paths import closest_path
from app.suggestions import listed


class Methods:
    """Refuses methods that a path does not take.

    Args:
        paths: the path templates that can be suggested, each with its methods.
        imagined: templates that do not exist but are often tried, and which one is meant.
    """

    def __init__(self, paths: Mapping[str, Sequence[str]], imagined: Mapping[str, str]) -> None:
        self._paths = paths
        self._imagined = imagined

    def process_resource(
        self, req: Request, resp: falcon.Response, resource: object, params: object
    ) -> None:
        """Answer OPTIONS with 204 and `Allow`; admit the other methods that the path takes.

        Raises falcon.HTTPNotFound for an empty segment, Problem method_not_allowed or, where
        no responder looks at the body, invalid_request.
        """
        # NOTE: to Falcon `/api/domains/` is `/api/domains/{domain}` with an empty name, and a
        # path may begin with any number of slashes (D1).
        if req.path != "/" and (req.path.endswith("/") or "//" in req.path):
            raise falcon.HTTPNotFound
        allowed = allowed_methods(resource)
        if req.method == "OPTIONS":
            resp.status = falcon.HTTP_204
            resp.set_header("Allow", ", ".join(allowed))
            resp.complete = True
        elif req.method not in allowed:
            detail = f"This path takes {listed(allowed)}{self._meant(req)}"
            raise Problem("method_not_allowed", detail, headers={"Allow": ", ".join(allowed)})
        elif req.method != "POST":
            refuse_broken_body(req)

    def _meant(self, req: Request) -> str:
        """Return the end of a sentence: the path for many vehicles that was probably meant.

        To Falcon a misspelt one is a path with a registration, such as `BULK-COMPLIANCE`.
        """
        # SEC: paths without a key are not charged, so their refusal must cost nothing.
        if req.method != "POST" or not req.context.caller:
            return "."
        paths = {path: methods for path, methods in self._paths.items() if "POST" in methods}
        meant = closest_path(req.path, req.method, paths, self._imagined)
        return f"; did you mean {meant}?" if meant else "."


def allowed_methods(resource: object) -> Sequence[str]:
    """Return the methods of a resource or of its class, as in the header `Allow`."""
    return _methods_of(resource if isinstance(resource, type) else type(resource))


# PERF: finding them out takes 3 % of a look-up.
@cache
def _methods_of(kind: type) -> tuple[str, ...]:
    methods = ("GET", "HEAD", "POST", "DELETE")
    return (*(m for m in methods if hasattr(kind, f"on_{m.lower()}")), "OPTIONS")
