"""Make the calls that standard input describes, all at once; print what each gave."""

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

from verifyd import Client, Problem, verdict


def outcome(call: dict[str, Any]) -> dict[str, Any]:
    client = Client(key="k", url=call["url"], **call["options"])
    methods: dict[str, Any] = {
        "ask": client.ask,
        "pages": client.pages,
        "check_all": client.check_all,
        "verdict": verdict,
        "events": lambda *arguments: islice(client.events(*arguments), 3),
    }
    start = time.monotonic()
    try:
        value = methods[call["method"]](*call["arguments"], **call["further"])
        is_one = call["method"] in ("ask", "verdict")
        said = {"value": value if is_one else list(value)}
    except Problem as problem:
        said = {
            "code": problem.code,
            "status": problem.status,
            "request_id": problem.request_id,
            "errors": problem.errors,
            "suggestions": problem.suggestions,
            "retry_after": problem.retry_after,
            "is_temporary": problem.is_temporary,
            "maybe_done": problem.maybe_done,
            "detail": problem.detail,
            "text": str(problem),
        }
    return {**said, "seconds": time.monotonic() - start}


calls = json.load(sys.stdin)
with ThreadPoolExecutor(len(calls)) as pool:
    print(json.dumps(dict(zip(calls, pool.map(outcome, calls.values()), strict=True))))
