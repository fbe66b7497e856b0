"""Helpers for tests of rate limits: a plan of three per minute, and the headers as numbers."""

from app.accounts.administration import set_plan
from app.documentation.resources import ASSETS

DOMAINS = "/api/domains"
OPEN = [
    *(
        "/",
        "/healthz",
        "/readyz",
        "/openapi.json",
        "/docs",
        "/docs/operations/putWatch",
        "/docs.md",
        "/docs/errors",
        "/docs/try",
    ),
    *(f"/docs/{ASSETS['style.css'].served_name}", "/docs/nothing", "/docs/operations/x"),
]
NOW = 1_780_000_000
"""The Unix time at which the stopped clock stands."""


def plan(world, name="tiny", requests=3, window_seconds=60):
    """Make or change a plan."""
    set_plan(
        world.engine,
        name,
        {"requests": requests, "window_seconds": window_seconds, "bulk_max": 10, "domains_max": 10},
    )


def limit(response):
    return int(response.headers["X-RateLimit-Limit"])


def remaining(response):
    return int(response.headers["X-RateLimit-Remaining"])


def reset(response):
    return int(response.headers["X-RateLimit-Reset"])


def use_up(client, count=3):
    """Send this many requests, all of which must be admitted."""
    for _ in range(count):
        assert client.get(DOMAINS).status_int == 200
