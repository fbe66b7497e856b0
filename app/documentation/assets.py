"""The files that the pages load, under names that change with their content (D97)."""

import importlib.resources
import json
from collections.abc import Mapping

from app.serve.http.assets import CSS, JAVASCRIPT, SVG, Asset, own_asset, served_name

_PACKAGE = "app.documentation"


def _swagger_ui(name: str, content_type: str) -> Asset:
    """Return an unchanged file of the npm package swagger-ui-dist (D63)."""
    digest: str = _MANIFEST["files"][name]
    return Asset(_SWAGGER_UI / name, content_type, served_name(name, digest))


_SWAGGER_UI = importlib.resources.files("app.documentation") / "swagger-ui"
_MANIFEST = json.loads((_SWAGGER_UI / "manifest.json").read_bytes())

ASSETS: Mapping[str, Asset] = {
    "style.css": own_asset(_PACKAGE, "style.css", CSS),
    "icon.svg": own_asset(_PACKAGE, "icon.svg", SVG),
    "try.css": own_asset(_PACKAGE, "try.css", CSS),
    "try.js": own_asset(_PACKAGE, "try.js", JAVASCRIPT),
    "swagger-ui.css": _swagger_ui("swagger-ui.css", CSS),
    "swagger-ui-bundle.js": _swagger_ui("swagger-ui-bundle.js", JAVASCRIPT),
}
"""All assets, by the names of their files."""

BY_SERVED_NAME: Mapping[str, Asset] = {asset.served_name: asset for asset in ASSETS.values()}
