"""A small client of verifyd. It needs the package requests."""

import os
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

URL = "http://127.0.0.1:8000"
key = os.environ.get("KEY")
if not key:
    raise SystemExit("KEY is not set. Run: export KEY=vfd_...")

# Repeats what was refused for now: after Retry-After seconds,
# without that header after 0, 2, 4, 8 and 16 seconds.
retries = Retry(
    total=5,
    backoff_factor=1,
    status_forcelist=[429, 500, 502, 503, 504],
    allowed_methods=None,  # POST and DELETE, too
    raise_on_status=False,
)
session = requests.Session()
session.mount(URL, HTTPAdapter(max_retries=retries))
session.headers["X-API-Key"] = key


class Problem(Exception):
    """An error of the service. Decide by `code`."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(f"{body['code']}: {body['detail']}")
        self.code = body["code"]


def ask(method: str, path: str, **options: Any) -> Any:
    """Return the answer; None if it is empty."""
    url = URL + path
    answer = session.request(method, url, timeout=30, **options)
    if not answer.ok:
        raise Problem(answer.json())
    return answer.json() if answer.content else None
