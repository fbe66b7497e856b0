"""A small client of verifyd; needs the package requests."""

import os
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

URL = "http://127.0.0.1:8000"

session = requests.Session()
session.headers["X-API-Key"] = os.environ["KEY"]
# Repeats a refused request after Retry-After seconds; without that header after
# 0, 2, 4, 8 ... seconds. A POST too: look-ups change nothing, and a domain that
# was created meanwhile is refused as domain_already_exists.
retries = Retry(
    total=5,
    backoff_factor=1,
    status_forcelist=[429, 500, 502, 503, 504],
    allowed_methods=None,
    raise_on_status=False,
)
session.mount(URL, HTTPAdapter(max_retries=retries))


class Problem(Exception):
    """An error of the service. Decide by `code`."""

    def __init__(self, body: dict[str, Any]) -> None:
        super().__init__(f"{body['code']}: {body['detail']}")
        self.code = body["code"]


def ask(method: str, path: str, **options: Any) -> Any:
    """Send a request and return its answer; None if the answer is empty."""
    answer = session.request(method, URL + path, timeout=30, **options)
    if not answer.ok:
        raise Problem(answer.json())
    return answer.json() if answer.content else None
