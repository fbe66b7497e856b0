"""The files that pages of the console load."""

from collections.abc import Mapping

import falcon

from app.console.context import ROOT, Services
from app.documentation import assets as documentation
from app.serve.http.assets import CSS, JAVASCRIPT, Asset, own_asset, send_asset

PATH = f"{ROOT}/assets/"

ASSETS: Mapping[str, Asset] = {
    "console.css": own_asset("app.console", "console.css", CSS),
    # The console may have a listener of its own, which serves nothing else (D131).
    "icon.svg": documentation.ASSETS["icon.svg"],
    "console.js": own_asset("app.console", "console.js", JAVASCRIPT),
}
_BY_SERVED_NAME = {asset.served_name: asset for asset in ASSETS.values()}


class ConsoleAsset:
    """A style sheet or script; everybody may read it."""

    def __init__(self, services: Services) -> None:
        pass

    def on_get(self, req: falcon.Request, resp: falcon.Response, asset: str) -> None:
        """GET /console/assets/{asset}. Raises falcon.HTTPNotFound for any name but the current."""
        if asset not in _BY_SERVED_NAME:  # SEC: only these names ever become a path.
            raise falcon.HTTPNotFound
        send_asset(req, resp, _BY_SERVED_NAME[asset])

    on_head = on_get
