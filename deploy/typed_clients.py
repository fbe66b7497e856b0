"""Write the typed clients from the OpenAPI document.

    python3 deploy/typed_clients.py

Run it when app/documentation/openapi.json has changed: until then tests/contract fails. The same
document gives the same bytes. Keys, repetitions and errors are those of the client libraries, which
the typed clients extend; only operations, parameters and members are written here (D177).
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword
from pathlib import Path
from typing import Any, NamedTuple

DOCUMENTATION = Path(__file__).parents[1] / "app" / "documentation"
WIDTH = 100
LEFT_OUT = "Operations"
"""The tag of probes, metrics and pages, which are not for clients."""

PYTHON_HEAD = '''"""A typed client of verifyd for Python 3.11 or newer. It needs only verifyd.py.

    from verifyd import verdict
    from verifyd_typed import TypedClient

    client = TypedClient()  # with the key in the environment variable KEY
    answer = client.check_vehicle_insurance("AB12CDE", asOf="2026-12-31")
    print(verdict(answer, "insured"))  # None if no register knows it

It is a `Client` with a method for each operation. Arguments and members have the names of the
documentation; `from_` stands for `from`, a keyword. Arguments that are None are not sent. This file
is generated: do not change it, a newer one replaces it.
"""

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict
from urllib.parse import quote, urlencode

from verifyd import Client
'''
PYTHON_CLASS = '''
class TypedClient(Client):
    """Sends requests with one key. Threads can share it."""
'''
PYTHON_TAIL = """

def _escaped(value: str) -> str:
    return quote(value, safe="")


def _query(parameters: Mapping[str, object]) -> str:
    given = _given(parameters)
    return f"?{urlencode(given)}" if given else ""


def _given(members: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in members.items() if value is not None}
"""

TYPESCRIPT_HEAD = """/**
 * A typed client of verifyd for Node 22.18 or newer. It needs only verifyd.ts.
 *
 *     import { verdict } from "./verifyd.ts";
 *     import { TypedClient } from "./verifyd_typed.ts";
 *
 *     const client = new TypedClient(); // with the key in the environment variable KEY
 *     const answer = await client.checkVehicleInsurance("AB12CDE", { asOf: "2026-12-31" });
 *     console.log(verdict(answer, "insured")); // null if no register knows it
 *
 * It is a `Client` with a method for each operation. Parameters and members have the names of the
 * documentation. What is undefined is not sent. This file is generated: do not change it, a newer
 * one replaces it.
 */

import { Client } from "./verifyd.ts";
"""
TYPESCRIPT_CLASS = """/** Sends requests with one key. */
export class TypedClient extends Client {
"""
TYPESCRIPT_TAIL = """
}

function search(parameters: object): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
"""

Node = Mapping[str, Any]


class Field(NamedTuple):
    """A parameter, or a member of an object."""

    name: str
    schema: Node
    is_required: bool
    text: str


class Operation(NamedTuple):
    """An operation for clients."""

    id: str
    method: str
    path: str
    summary: str
    text: str
    in_path: list[Field]
    query: list[Field]
    body: str
    """The name of the object in the request; empty without one."""
    answer: str
    """The name of the object in the answer; empty without one."""


class Language(NamedTuple):
    """How a language writes types."""

    plain: Mapping[str, str]
    a_list: str
    choice: str
    between: str
    """What is between the values of a choice."""


PYTHON = Language(
    {"string": "str", "integer": "int", "boolean": "bool", "null": "None"},
    a_list="list[{}]",
    choice="Literal[{}]",
    between=", ",
)
TYPESCRIPT = Language(
    {"string": "string", "integer": "number", "boolean": "boolean", "null": "null"},
    a_list="Array<{}>",
    choice="{}",
    between=" | ",
)


class Document:
    """The parts of an OpenAPI 3.1 document that clients consist of."""

    def __init__(self, document: Node) -> None:
        self._document = document
        self._schemas: Mapping[str, Node] = document["components"]["schemas"]

    def operations(self) -> Iterator[Operation]:
        """Yield the operations for clients. Headers are left out: the client has its own."""
        for path, item in self._document["paths"].items():
            for method, node in item.items():
                if LEFT_OUT in node["tags"]:
                    continue
                given = [self._resolved(each) for each in node.get("parameters", [])]
                yield Operation(
                    id=node["operationId"],
                    method=method.upper(),
                    path=path,
                    summary=node["summary"],
                    text=node["description"],
                    in_path=[self._parameter(each) for each in given if each["in"] == "path"],
                    query=[self._parameter(each) for each in given if each["in"] == "query"],
                    body=self._content(node.get("requestBody", {})),
                    answer=self._content(self._resolved(node["responses"][min(node["responses"])])),
                )

    def objects(self) -> list[str]:
        """Return the names of objects in requests and answers, each after those that it has."""
        found: dict[str, None] = {}

        def add(name: str) -> None:
            inner = re.findall(r'"#/components/schemas/(\w+)"', json.dumps(self._schemas[name]))
            for each in inner:
                add(each)
            found[name] = None

        for operation in self.operations():
            for name in filter(None, (operation.body, operation.answer)):
                add(name)
        return [name for name in found if self._is_object(name)]

    def meaning(self, name: str) -> str:
        """Return what an object is."""
        return str(self._schemas[name]["description"])

    def members(self, name: str) -> list[Field]:
        """Return the members of an object; none of no object."""
        node = self._schemas[name] if name else {"properties": {}}
        return [
            Field(member, schema, member in node.get("required", ()), self._text(schema))
            for member, schema in node["properties"].items()
        ]

    def type_of(self, schema: Node, language: Language) -> str:
        """Return the type of a value: objects have names, all else is written out."""
        if "$ref" in schema:
            name = _name(schema)
            return name if self._is_object(name) else self.type_of(self._schemas[name], language)
        if "anyOf" in schema:
            return " | ".join(self.type_of(each, language) for each in schema["anyOf"])
        if "enum" in schema:
            return language.choice.format(language.between.join(map(json.dumps, schema["enum"])))
        if isinstance(schema["type"], list):
            return " | ".join(language.plain[each] for each in schema["type"])
        if schema["type"] == "array":
            return language.a_list.format(self.type_of(schema["items"], language))
        return language.plain[schema["type"]]

    def _parameter(self, node: Node) -> Field:
        return Field(node["name"], node["schema"], node["required"], node["description"])

    def _content(self, node: Node) -> str:
        return "".join(_name(each["schema"]) for each in node.get("content", {}).values())

    def _is_object(self, name: str) -> bool:
        return "properties" in self._schemas[name]

    def _text(self, schema: Node) -> str:
        """Return what a member is; empty if only its type says so."""
        if "description" not in schema and "$ref" in schema and not self._is_object(_name(schema)):
            schema = self._schemas[_name(schema)]
        return str(schema.get("description", ""))

    def _resolved(self, node: Node) -> Node:
        if "$ref" not in node:
            return node
        kind, name = node["$ref"].split("/")[-2:]
        found: Node = self._document["components"][kind][name]
        return found


def _name(reference: Node) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def python_file(document: Document) -> str:
    """Return the typed client in Python, as ruff formats it."""
    operations = list(document.operations())
    sent = {each.body for each in operations}
    lines = [PYTHON_HEAD]
    for name in document.objects():
        if name in sent:  # its members are arguments
            continue
        lines += ["", f"class {name}(TypedDict):", *_docstring("    ", document.meaning(name)), ""]
        for each in document.members(name):
            kind = document.type_of(each.schema, PYTHON)
            lines.append(f"    {each.name}: {kind if each.is_required else f'NotRequired[{kind}]'}")
            lines += _docstring("    ", each.text)
        lines.append("")
    lines.append(PYTHON_CLASS)
    for operation in operations:
        lines += [*_python_method(document, operation), ""]
    return "\n".join(lines) + PYTHON_TAIL


def _python_method(document: Document, operation: Operation) -> Iterator[str]:
    body = document.members(operation.body)
    given = [*operation.in_path, *operation.query, *body]
    required = [each for each in given if each.is_required]
    optional = [each for each in given if not each.is_required]
    arguments = [f"{each.name}: {document.type_of(each.schema, PYTHON)}" for each in required]
    arguments += ["*"] if optional else []
    for each in optional:
        kind = document.type_of(each.schema, PYTHON).removesuffix(" | None")
        arguments.append(f"{_argument(each)}: {kind} | None = None")
    yield _head(f"    def {_snake(operation.id)}", ["self", *arguments], operation.answer or "None")
    told = [f"{_argument(each)}: {each.text}" for each in given]
    yield from _docstring("        ", f"{operation.summary}.", operation.text, arguments=told)
    path = re.sub(r"{(\w+)}", r"{_escaped(\1)}", operation.path)
    yield f'        path = {"f" if operation.in_path else ""}"{path}"'
    words = f'"{operation.method}", path'
    for variable, fields, word in (
        ("query", operation.query, " + _query(query)"),
        ("body", body, ", _given(body)"),
    ):
        if fields:
            yield f"        {variable} = {{"
            yield from (f'            "{each.name}": {_argument(each)},' for each in fields)
            yield "        }"
            words += word
    if operation.answer:
        yield f"        answer: {operation.answer} = self.ask({words})"
        yield "        return answer"
    else:
        yield f"        self.ask({words})"


def _head(start: str, arguments: Sequence[str], result: str) -> str:
    """Return the first line of a method, or as many as it takes."""
    line = f"{start}({', '.join(arguments)}) -> {result}:"
    if len(line) <= WIDTH:
        return line
    return "\n".join(
        [f"{start}(", *(f"        {each}," for each in arguments), f"    ) -> {result}:"]
    )


def _argument(field: Field) -> str:
    return f"{field.name}_" if iskeyword(field.name) else field.name


def _snake(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name)


def _docstring(indent: str, *paragraphs: str, arguments: Sequence[str] = ()) -> list[str]:
    """Return the lines of a docstring, none without a text."""
    width = WIDTH - 2 * len('"""')
    text = "\n\n".join(_wrapped(each, indent, width) for each in paragraphs)
    if arguments:
        inner = f"{indent}    "
        listed = [_wrapped(each, inner, width, hanging="    ") for each in arguments]
        text += "\n".join(["\n", f"{indent}Args:", *listed])
    if not text:
        return []
    ending = f'\n{indent}"""' if "\n" in text else '"""'
    return [f'{indent}"""{text.strip()}{ending}']


def typescript_file(document: Document) -> str:
    """Return the typed client in TypeScript."""
    operations = list(document.operations())
    lines = [TYPESCRIPT_HEAD]
    for name in document.objects():
        lines += _interface(document, name, document.meaning(name), document.members(name))
    for each in operations:
        if each.query:
            meaning = f"The parameters of {each.id}."
            lines += _interface(document, _query_of(each), meaning, each.query)
    methods = ("\n".join(_typescript_method(each)) for each in operations)
    return "\n".join([*lines, TYPESCRIPT_CLASS]) + "\n\n".join(methods) + TYPESCRIPT_TAIL


def _interface(document: Document, name: str, meaning: str, fields: list[Field]) -> Iterator[str]:
    yield from _comment("", meaning)
    yield f"export interface {name} {{"
    for each in fields:
        yield from _comment("  ", each.text)
        kind = document.type_of(each.schema, TYPESCRIPT)
        yield f"  {each.name}{'' if each.is_required else '?'}: {kind};"
    yield "}\n"


def _typescript_method(operation: Operation) -> Iterator[str]:
    given = [f"{each.name}: string" for each in operation.in_path]
    path = re.sub(r"{(\w+)}", r"${encodeURIComponent(\1)}", operation.path)
    if operation.query:
        given.append(f"query: {_query_of(operation)} = {{}}")
        path += "${search(query)}"
    body = ""
    if operation.body:
        given.append(f"body: {operation.body}")
        body = ", body"
    address = f"`{path}`" if "$" in path else f'"{path}"'
    yield from _comment("  ", f"{operation.summary}.", operation.text)
    yield f"  {operation.id}({', '.join(given)}): Promise<{operation.answer or 'void'}> {{"
    yield f'    return this.ask("{operation.method}", {address}{body});'
    yield "  }"


def _query_of(operation: Operation) -> str:
    return f"{operation.id[0].upper()}{operation.id[1:]}Query"


def _comment(indent: str, *paragraphs: str) -> list[str]:
    """Return a comment of JSDoc, none without a text."""
    marked = f"{indent} * "
    text = f"\n{marked.rstrip()}\n".join(_wrapped(each, marked) for each in paragraphs)
    if not text:
        return []
    if "\n" in text:
        return [f"{indent}/**", text, f"{indent} */"]
    return [f"{indent}/** {text.removeprefix(marked)} */"]


def _wrapped(text: str, indent: str, width: int = WIDTH, hanging: str = "") -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


WRITERS = {"verifyd_typed.py": python_file, "verifyd_typed.ts": typescript_file}
"""What makes the content of each file."""


def main() -> None:
    """Write both files."""
    document = Document(json.loads((DOCUMENTATION / "openapi.json").read_bytes()))
    for name, written in WRITERS.items():
        path = DOCUMENTATION / "client-samples" / name
        path.write_text(written(document), encoding="utf-8")


if __name__ == "__main__":
    main()
