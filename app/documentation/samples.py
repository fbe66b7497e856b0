"""The code samples on the documentation page; tests/system/test_doc_samples.py runs them all."""

import importlib.resources
import json
import shlex
from typing import Any, NamedTuple

_FOLDER = importlib.resources.files(__package__) / "client-samples"
# What stands in the files, and in the packaged OpenAPI document.
_URL = "http://127.0.0.1:8000"


class Sample(NamedTuple):
    """A code sample."""

    language: str
    """`curl`, `Python` or `TypeScript`."""
    text: str
    file_name: str | None = None
    """Its name, if it is a file; others import the clients by it."""


def client_samples(url: str) -> list[Sample]:
    """Return the small clients, which the other samples import."""
    return [_written("Python", "verifyd.py", url), _written("TypeScript", "verifyd.ts", url)]


def error_samples(url: str) -> list[Sample]:
    """Return how to handle an error."""
    return [
        _written("curl", "unknown_vehicle.sh", url)._replace(file_name=None),
        _written("Python", "unknown_vehicle.py", url),
        _written("TypeScript", "unknown_vehicle.ts", url),
    ]


def _written(language: str, file_name: str, url: str) -> Sample:
    """Return a sample that is a file."""
    text = (_FOLDER / file_name).read_text(encoding="utf-8").replace(_URL, url)
    return Sample(language, text.rstrip(), file_name)


def operation_samples(url: str, method: str, path: str, body: Any) -> list[Sample]:
    """Return how to send a request in each language. A body is JSON, or None if there is none."""
    return [
        Sample("curl", _curl(url, method, path, body)),
        Sample("Python", _python(method, path, body)),
        Sample("TypeScript", _typescript(method, path, body)),
    ]


def _curl(url: str, method: str, path: str, body: Any) -> str:
    lines = ['curl -H "X-API-Key: $KEY"']
    if body is not None:
        lines.append("-H 'Content-Type: application/json'")
        lines.append(f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}")
    elif method != "GET":
        lines.append(f"-X {method}")
    lines.append(shlex.quote(url + path))
    return " \\\n  ".join(lines)


def _python(method: str, path: str, body: Any) -> str:
    if body is None:
        return f'from verifyd import ask\n\nprint(ask("{method}", "{path}"))'
    return (
        f"from verifyd import ask\n\nbody = {_python_literal(body)}\n"
        f'print(ask("{method}", "{path}", json=body))'
    )


def _python_literal(value: Any) -> str:
    """Return JSON as a Python literal, in double quotes."""
    if isinstance(value, dict):
        members = (
            f"{_python_literal(name)}: {_python_literal(each)}" for name, each in value.items()
        )
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_python_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _typescript(method: str, path: str, body: Any) -> str:
    imported = 'import { ask } from "./verifyd.ts";\n\n'
    if body is None:
        return f'{imported}console.log(await ask("{method}", "{path}"));'
    return (
        f"{imported}const body = {json.dumps(body, ensure_ascii=False)};\n"
        f'console.log(await ask("{method}", "{path}", body));'
    )
