"""Turns the templates of this package into pages."""

import re
from functools import cache

import jinja2
from markupsafe import Markup, escape

from app.documentation.assets import ASSETS
from app.version import VERSION

_CODE = re.compile(r"`([^`]+)`")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")


def render(template: str, root: str, **values: object) -> bytes:
    """Return a page in UTF-8.

    Args:
        template: the name of its file in `templates/`.
        root: what leads from the page's address to the start page: empty, or `../`. All links are
            relative, so that they hold behind a proxy's path prefix.
        values: what the template shows.
    """
    return _environment().get_template(template).render(values, root=root).encode()


def prose(text: str) -> Markup:
    """Return a text of the OpenAPI document or the error catalogue as HTML.

    Of Markdown it knows what these texts use: code and bold.
    """
    # NOTE: a substitution in Markup would escape what it inserts.
    marked = _CODE.sub(r"<code>\1</code>", str(escape(text)))
    return Markup(_STRONG.sub(r"<strong>\1</strong>", marked))  # noqa: S704 - escaped first


def capitalised(text: str) -> str:
    """Return a text with an upper-case first letter; the rest stays."""
    return text[:1].upper() + text[1:]


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("app.documentation"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"prose": prose, "capitalised": capitalised}
    environment.globals |= {
        "assets": {name: f"docs/{asset.served_name}" for name, asset in ASSETS.items()},
        "version": VERSION,
    }
    return environment
