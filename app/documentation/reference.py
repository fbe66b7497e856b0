"""The parts of the OpenAPI document that the documentation shows."""

import importlib.resources
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

_FOLDER = importlib.resources.files(__package__) / "client-samples"
PACKAGED_URL = "http://127.0.0.1:8000"
"""The address of the service in the packaged files, before it is replaced."""


class Sample(NamedTuple):
    """A code sample of the documentation; tests/system/test_doc_samples.py runs them all."""

    language: str
    """`curl`, `Python` or `TypeScript`."""
    text: str


LIBRARIES = ("verifyd.py", "verifyd.ts")
"""The client libraries, which the samples import."""
TYPED_CLIENTS = ("verifyd_typed.py", "verifyd_typed.ts")
"""The typed clients, which deploy/typed_clients.py writes. They import the client libraries."""


def client_library(file_name: str) -> bytes:
    """Return a client library or a typed client, which calls the service at PACKAGED_URL."""
    return (_FOLDER / file_name).read_bytes()


def written_samples(name: str) -> list[Sample]:
    """Return the samples in the files of this name."""
    return [
        Sample(language, (_FOLDER / f"{name}.{ending}").read_text(encoding="utf-8").rstrip())
        for language, ending in (("curl", "sh"), ("Python", "py"), ("TypeScript", "ts"))
    ]


def operation_samples(
    url: str, method: str, path: str, body: object, verdict: str | None
) -> list[Sample]:
    """Return how to send a request in each language.

    Args:
        body: JSON, or None if there is none.
        verdict: the member of the answer that can be not known; None if there is none.
    """
    return [
        Sample("curl", _curl(url, method, path, body)),
        Sample("Python", _python(method, path, body, verdict)),
        Sample("TypeScript", _typescript(method, path, body, verdict)),
    ]


def _curl(url: str, method: str, path: str, body: object) -> str:
    lines = ['curl -H "X-API-Key: $KEY"']
    if body is not None:
        lines.append("-H 'Content-Type: application/json'")
        lines.append(f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}")
    if method not in ("GET", "POST"):
        lines.append(f"-X {method}")
    lines.append(shlex.quote(url + path))
    return " \\\n  ".join(lines)


def _python(method: str, path: str, body: object, verdict: str | None) -> str:
    lines = [f"from verifyd import Client{', verdict' if verdict else ''}", "", "client = Client()"]
    asked = f'client.ask("{method}", "{path}")'
    if body is not None:
        lines.append(f"body = {_python_literal(body)}")
        asked = f'client.ask("{method}", "{path}", body)'
    if verdict is None:
        return "\n".join([*lines, f"print({asked})"])
    lines += [f"answer = {asked}", "print(answer)"]
    if body is None:
        return "\n".join([*lines, f'print(verdict(answer, "{verdict}"))'])
    each = f'    print(item["registration"], verdict(item, "{verdict}"))'
    return "\n".join([*lines, 'for item in answer["results"]:', each])


def _python_literal(value: object) -> str:
    """Return JSON as a Python literal, in double quotes."""
    if isinstance(value, dict):
        members = (
            f"{_python_literal(name)}: {_python_literal(each)}" for name, each in value.items()
        )
        return f"{{{', '.join(members)}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_python_literal, value))}]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _typescript(method: str, path: str, body: object, verdict: str | None) -> str:
    imported = "Client, verdict" if verdict else "Client"
    lines = [f'import {{ {imported} }} from "./verifyd.ts";', "", "const client = new Client();"]
    asked = f'await client.ask("{method}", "{path}")'
    if body is not None:
        lines.append(f"const body = {json.dumps(body, ensure_ascii=False)};")
        asked = f'await client.ask("{method}", "{path}", body)'
    if verdict is None:
        return "\n".join([*lines, f"console.log({asked});"])
    lines += [f"const answer = {asked};", "console.log(answer);"]
    if body is None:
        return "\n".join([*lines, f'console.log(verdict(answer, "{verdict}"));'])
    each = f'  console.log(item.registration, verdict(item, "{verdict}"));'
    return "\n".join([*lines, "for (const item of answer.results) {", each, "}"])


Node = Mapping[str, Any]
_PROBLEM = "application/problem+json"
_LEFT_OUT = "Operations"
"""The tag of probes, metrics and pages, which are not for clients."""
_FIRST = "checkVehicleInsurance"
_RESULT = "results[]."
"""How members of an item of a bulk answer begin."""


class DocumentedMember(NamedTuple):
    """A parameter, or a member of a body."""

    name: str
    """Dotted within an object, such as `policy.validFrom`; `results[].code` within a list."""
    type: str
    is_required: bool
    text: str


class DocumentedAnswer(NamedTuple):
    """The answer of an operation that succeeded."""

    status: str
    text: str
    body: str | None
    """An example as indented JSON; None if the answer has no body."""
    members: list[DocumentedMember]


class Operation(NamedTuple):
    """An operation as its page shows it."""

    id: str
    tag: str
    method: str
    path: str
    summary: str
    text: str
    parameters: list[DocumentedMember]
    """Those in the path and in the query."""
    has_headers: bool
    """Whether it takes the headers of `Reference.headers`."""
    body_members: list[DocumentedMember]
    samples: list[Sample]
    answer: DocumentedAnswer
    codes: dict[str, list[str]]
    """Error codes that not every operation has, by status."""


class Reference:
    """The operations of the OpenAPI document, by tag and in its order.

    Args:
        document: has the parameters and responses in its operations, as `read_document` returns it.
    """

    def __init__(self, document: Node) -> None:
        self._document = document

    @cached_property
    def tags(self) -> list[tuple[str, str, list[Operation]]]:
        """Tags for clients: name, description, operations."""
        return [
            (
                tag["name"],
                tag["description"],
                [op for op in self.operations.values() if op.tag == tag["name"]],
            )
            for tag in self._document["tags"]
            if tag["name"] != _LEFT_OUT
        ]

    @cached_property
    def operations(self) -> dict[str, Operation]:
        """The operations for clients, by id."""
        found = [self._operation(path, method, node) for path, method, node in self._nodes()]
        return {operation.id: operation for operation in found}

    @cached_property
    def common_codes(self) -> list[str]:
        """Error codes that every operation for clients has, by status."""
        codes = [
            dict.fromkeys(code for listed in self._codes(node).values() for code in listed)
            for _, _, node in self._nodes()
        ]
        return [code for code in codes[0] if all(code in each for each in codes)]

    @cached_property
    def headers(self) -> list[DocumentedMember]:
        """The headers that some operations take; they all take the same."""
        given = [
            [self._parameter(each) for each in node.get("parameters", ()) if each["in"] == "header"]
            for _, _, node in self._nodes()
        ]
        return max(given, key=len)

    @property
    def first(self) -> Operation:
        """The operation to begin with: it needs nothing but a key."""
        return self.operations[_FIRST]

    @property
    def problem(self) -> str:
        """An error as indented JSON."""
        return _indented(self._document["components"]["examples"]["vehicle_not_found"]["value"])

    def _nodes(self) -> Iterator[tuple[str, str, Node]]:
        for path, item in self._document["paths"].items():
            for method, node in item.items():
                if _LEFT_OUT not in node["tags"]:
                    yield path, method.upper(), node

    def _operation(self, path: str, method: str, node: Node) -> Operation:
        parameters = node.get("parameters", ())
        body_schema, body = self._content(self._resolved(node.get("requestBody", {})))
        in_path = {each["name"]: each["example"] for each in parameters if each["in"] == "path"}
        url = self._document["servers"][0]["url"]
        answer = self._answer(node)
        return Operation(
            id=node["operationId"],
            tag=node["tags"][0],
            method=method,
            path=path,
            summary=node["summary"],
            text=node["description"],
            parameters=[self._parameter(each) for each in parameters if each["in"] != "header"],
            has_headers=any(each["in"] == "header" for each in parameters),
            body_members=list(self._members(body_schema)),
            samples=operation_samples(
                url, method, path.format(**in_path), body, self._verdict(answer.members)
            ),
            answer=answer,
            codes={
                status: kept
                for status, codes in self._codes(node).items()
                if (kept := [code for code in codes if code not in self.common_codes])
            },
        )

    def _parameter(self, node: Node) -> DocumentedMember:
        text = node["description"]
        return DocumentedMember(node["name"], self._type(node["schema"]), node["required"], text)

    def _answer(self, node: Node) -> DocumentedAnswer:
        status = min(node["responses"])
        response = node["responses"][status]
        schema, body = self._content(response)
        shown = None if body is None else _indented(body)
        return DocumentedAnswer(status, response["description"], shown, list(self._members(schema)))

    def _verdict(self, members: Sequence[DocumentedMember]) -> str | None:
        """Return the member of an answer that tells yes or no, or that this is not known."""
        names = [member.name.removeprefix(_RESULT) for member in members]
        if "unknown" not in names:
            return None
        return next(name for name in ("insured", "compliant") if name in names)

    def _codes(self, node: Node) -> dict[str, list[str]]:
        """Return the codes of an operation's errors by status, from their examples."""
        codes: dict[str, list[str]] = {}
        for status, response in node["responses"].items():
            content = response.get("content", {}).get(_PROBLEM, {})
            for example in content.get("examples", {}).values():
                code = self._resolved(example)["value"]["code"]
                if code not in codes.setdefault(status, []):
                    codes[status].append(code)
        return codes

    def _content(self, node: Node) -> tuple[Node, object]:
        """Return the schema of a body and its first example; empty and None without a body."""
        if not node.get("content"):
            return {}, None
        (content,) = node["content"].values()
        example = self._resolved(next(iter(content["examples"].values())))
        return content["schema"], example["value"]

    def _members(self, schema: Node, prefix: str = "") -> Iterator[DocumentedMember]:
        """List the members of an object, and below each those of the objects in it.

        Objects in a result of many are listed only with the operation on one vehicle.
        """
        schema = self._resolved(schema)
        for name, node in schema.get("properties", {}).items():
            is_required = name in schema.get("required", ())
            inner = self._without_null(node)
            text = node.get("description") or inner.get("description", "")
            yield DocumentedMember(prefix + name, self._type(node), is_required, text)
            if inner.get("type") == "array":
                yield from self._members(inner["items"], f"{prefix}{name}[].")
            elif prefix != _RESULT:
                yield from self._members(inner, f"{prefix}{name}.")

    def _type(self, node: Node) -> str:
        """Return the type of a value in a few words, such as `date or null`."""
        node = self._resolved(node)
        if "anyOf" in node:
            return " or ".join(self._type(each) for each in node["anyOf"])
        if "enum" in node:
            return " or ".join(map(str, node["enum"]))
        types = node.get("type", "any")
        if isinstance(types, list):
            return " or ".join(self._type({**node, "type": each}) for each in types)
        if types == "array":
            return f"array of {self._type(node['items'])}s"
        if types == "string" and node.get("format") in ("date", "date-time"):
            return {"date": "date", "date-time": "time"}[node["format"]]
        return str(types)

    def _without_null(self, node: Node) -> Node:
        """Return the schema of a value, if it is not null."""
        node = self._resolved(node)
        others = [each for each in node.get("anyOf", []) if each != {"type": "null"}]
        return self._resolved(others[0]) if others else node

    def _resolved(self, node: Node) -> Node:
        """Follow a `$ref` within the document; members beside the `$ref` take precedence."""
        while "$ref" in node:
            target: Any = self._document
            for step in node["$ref"].removeprefix("#/").split("/"):
                target = target[step]
            node = {**target, **{name: each for name, each in node.items() if name != "$ref"}}
        return node


def _indented(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
