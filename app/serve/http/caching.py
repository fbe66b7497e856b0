"""Documents that a client must check before each use, and files whose names change with them."""

import hashlib
import importlib.resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

import falcon

from app.serve.http.bodies import FileBody


def send_document(
    req: falcon.Request, resp: falcon.Response, body: bytes, content_type: str
) -> None:
    """Answer with a document, or with 304 if the client names its ETag in `If-None-Match`.

    The ETag is strong: the SHA-256 of the body. A proxy that compresses the document makes it
    weak, so it is compared weakly (RFC 9110, 13.1.2).
    """
    etag = hashlib.sha256(body).hexdigest()
    resp.etag = etag
    resp.cache_control = ["no-cache"]
    resp.set_header("X-Content-Type-Options", "nosniff")
    held = req.if_none_match or []
    if "*" in held or etag in held:
        resp.status = falcon.HTTP_304
        return
    resp.content_type = content_type
    resp.data = body


CSS = "text/css; charset=utf-8"
JAVASCRIPT = "text/javascript; charset=utf-8"
SVG = "image/svg+xml"
_DIGITS = 12
_IMMUTABLE = "public, max-age=31536000, immutable"


class Asset(NamedTuple):
    """A file of a package that a page loads, under a name that changes with its content."""

    file: Traversable
    content_type: str
    served_name: str
    """Its name in the page's links, such as `style.0123456789ab.css`."""


def served_name(name: str, digest: str) -> str:
    """Return the name of a file with the first digits of its SHA-256.

    After an upgrade no browser shows an old style sheet.
    """
    stem, _, extension = name.rpartition(".")
    return f"{stem}.{digest[:_DIGITS]}.{extension}"


def own_asset(package: str, name: str, content_type: str) -> Asset:
    """Return a file of the directory `static` of a package."""
    file = importlib.resources.files(package) / "static" / name
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Asset(file, content_type, served_name(name, digest))


def send_asset(resp: falcon.Response, asset: Asset) -> None:
    """Answer with a file, which the client may keep for good."""
    resp.content_type = asset.content_type
    resp.set_header("Cache-Control", _IMMUTABLE)
    # SEC: a thousand slow readers of the 1.7 MB of Swagger UI hold a piece each.
    body = FileBody(Path(str(asset.file)))
    resp.content_length = body.length
    resp.stream = body
