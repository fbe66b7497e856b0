"""The files that the pages load, under names that change with their content (D97)."""

import hashlib
import importlib.resources
import json
from collections.abc import Mapping
from importlib.resources.abc import Traversable
from typing import NamedTuple

_JAVASCRIPT = "text/javascript; charset=utf-8"
_CSS = "text/css; charset=utf-8"
_DIGITS = 12


class Asset(NamedTuple):
    """A file of the package that a page loads."""

    file: Traversable
    content_type: str
    served_name: str
    """Its name below /docs/, such as `style.0123456789ab.css`."""


def _served_name(name: str, digest: str) -> str:
    stem, _, extension = name.rpartition(".")
    return f"{stem}.{digest[:_DIGITS]}.{extension}"


def _own(name: str, content_type: str) -> Asset:
    file = importlib.resources.files(__package__) / "static" / name
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    return Asset(file, content_type, _served_name(name, digest))


def _swagger_ui(name: str, content_type: str) -> Asset:
    """Return an unchanged file of the npm package swagger-ui-dist (D63)."""
    digest: str = _MANIFEST["files"][name]
    return Asset(_SWAGGER_UI / name, content_type, _served_name(name, digest))


_SWAGGER_UI = importlib.resources.files("app.operations") / "swagger-ui"
_MANIFEST = json.loads((_SWAGGER_UI / "manifest.json").read_bytes())

ASSETS: Mapping[str, Asset] = {
    "style.css": _own("style.css", _CSS),
    "icon.svg": _own("icon.svg", "image/svg+xml"),
    "try.css": _own("try.css", _CSS),
    "try.js": _own("try.js", _JAVASCRIPT),
    "swagger-ui.css": _swagger_ui("swagger-ui.css", _CSS),
    "swagger-ui-bundle.js": _swagger_ui("swagger-ui-bundle.js", _JAVASCRIPT),
}
"""All assets, by the names of their files."""

BY_SERVED_NAME: Mapping[str, Asset] = {asset.served_name: asset for asset in ASSETS.values()}
