"""The page that shows the OpenAPI document.

It is Swagger UI, whose files are part of this package (D63). The browser loads everything
from this service, so the page works without internet access.
"""

import importlib.resources
import os
from collections.abc import Mapping
from importlib.resources.abc import Traversable

import falcon

# SEC: the page handles API keys; it may run and reach nothing that this service did not send.
# Swagger UI writes style attributes, hence 'unsafe-inline' for styles alone.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)

# NOTE: the addresses are relative to /docs, so they hold behind a proxy's path prefix too.
_PAGE = b"""\
<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta name="viewport" content="width=device-width, initial-scale=1">
  <title>Domains and Vehicle Verification Service</title>
  <link rel="icon" type="image/png" sizes="32x32" href="docs/favicon-32x32.png">
  <link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body style="margin: 0">
  <noscript>This page needs JavaScript. The <a href="openapi.json">document</a> does not.</noscript>
  <div id="swagger-ui"></div>
  <script src="docs/swagger-ui-bundle.js"></script>
  <script src="docs/docs.js"></script>
</body>
</html>
"""

# SEC: no validator badge (it would send the document's address to another host), no settings
# from the page's address (a link could name a foreign document), no key kept after the visit.
_INITIALISER = b"""\
"use strict";
SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#swagger-ui",
  deepLinking: true,
  tryItOutEnabled: true,
  displayRequestDuration: true,
  persistAuthorization: false,
  queryConfigEnabled: false,
  validatorUrl: null,
});
"""

# Unchanged files of the npm package swagger-ui-dist; deploy/swagger_ui.py updates them.
_SWAGGER_UI: Traversable = importlib.resources.files(__package__) / "swagger-ui"
_JAVASCRIPT = "text/javascript; charset=utf-8"
_PACKAGED: Mapping[str, str] = {
    "swagger-ui.css": "text/css; charset=utf-8",
    "swagger-ui-bundle.js": _JAVASCRIPT,
    "favicon-32x32.png": "image/png",
}


class DocumentationPage:
    """The page that shows the OpenAPI document."""

    def on_get(self, _req: falcon.Request, resp: falcon.Response) -> None:
        """GET /docs."""
        resp.content_type = "text/html; charset=utf-8"
        _set_security_headers(resp)
        resp.data = _PAGE

    on_head = on_get


class DocumentationAsset:
    """A file that the page loads: its own initialiser, or one of three that Swagger UI brings."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, asset: str) -> None:
        """GET /docs/{asset}.

        Raises falcon.HTTPNotFound for all names except the four that the page uses.
        """
        if asset == "docs.js":
            resp.content_type = _JAVASCRIPT
            resp.data = _INITIALISER
        elif asset in _PACKAGED:  # SEC: only these names ever become a path.
            resp.content_type = _PACKAGED[asset]
            _send_packaged(asset, req, resp)
        else:
            raise falcon.HTTPNotFound
        _set_security_headers(resp)

    on_head = on_get


def _send_packaged(name: str, req: falcon.Request, resp: falcon.Response) -> None:
    # PERF: streamed from disk; the bundle is 1.7 MB, which no worker needs to hold.
    stream = (_SWAGGER_UI / name).open("rb")
    size_bytes = stream.seek(0, os.SEEK_END)
    if req.method == "HEAD":  # Falcon closes a stream only if it sends it.
        stream.close()
        resp.content_length = size_bytes
        return
    stream.seek(0)
    resp.set_stream(stream, size_bytes)


def _set_security_headers(resp: falcon.Response) -> None:
    resp.set_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
    resp.set_header("X-Content-Type-Options", "nosniff")
