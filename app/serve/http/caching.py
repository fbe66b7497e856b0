"""Documents that a client may keep, but must check before each use (D7)."""

import hashlib

import falcon


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
    held = req.if_none_match or []
    if "*" in held or etag in held:
        resp.status = falcon.HTTP_304
        return
    resp.content_type = content_type
    resp.data = body
