"""Methods of known paths, and bodies where none is needed (D1, D5)."""

from collections.abc import Sequence
from functools import cache

import falcon

from app.errors import Problem
from app.http.bodies import refuse_broken_body
from app.http.context import Request
from app.suggestions import listed


class Methods:
    """Refuses methods that a path does not take."""

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
            detail = f"This path takes {listed(allowed)}."
            raise Problem("method_not_allowed", detail, headers={"Allow": ", ".join(allowed)})
        elif req.method != "POST":
            refuse_broken_body(req)


def allowed_methods(resource: object) -> Sequence[str]:
    """Return the methods of a resource or of its class, as in the header `Allow`."""
    return _methods_of(resource if isinstance(resource, type) else type(resource))


# PERF: finding them out takes 3 % of a look-up.
@cache
def _methods_of(kind: type) -> tuple[str, ...]:
    methods = ("GET", "HEAD", "POST", "DELETE")
    return (*(m for m in methods if hasattr(kind, f"on_{m.lower()}")), "OPTIONS")
