"""`/docs` and `/docs/problems`: the OpenAPI document as plain pages. No script, no style sheet, no picture from anywhere: they work offline."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI, Response

from planner.api.problems import KINDS

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin-top: 2.5rem; border-top: 1px solid #8886; padding-top: 1rem }
code, pre { font: 14px/1.45 ui-monospace, monospace }
pre { overflow-x: auto; padding: .75rem; background: #8882; border-radius: 6px }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid #8884 }
@media (max-width: 40rem) {
  main { overflow-wrap: anywhere } table, tbody, tr, td { display: block } th { display: none }
  tr { padding: .4rem 0; border-bottom: 1px solid #8884 } td { border: 0; padding: .1rem 0 } td:first-child { font-weight: 700 }
}
.method { font-weight: 700; letter-spacing: .03em }
"""
STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = (
    f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)


def routes(app: FastAPI) -> APIRouter:
    """Return the routes of the pages about `app`."""
    router = APIRouter(include_in_schema=False)

    @router.get("/docs")
    async def reference() -> Response:
        return _page_response(reference_page(app.openapi()))

    @router.get("/docs/problems")
    async def problems() -> Response:
        return _page_response(problems_page())

    return router


def _page_response(page: str) -> Response:
    return Response(
        page,
        media_type="text/html; charset=utf-8",
        headers={"Content-Security-Policy": POLICY, "Cache-Control": "private, max-age=300"},
    )


def reference_page(document: Mapping[str, Any]) -> str:
    """Return the reference of every operation: parameters, body field by field, examples with curl, responses."""
    info, schemas = document["info"], document["components"]["schemas"]
    parts = [
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>",
        *(f"<p>{_prose(text)}</p>" for text in info["description"].split("\n\n")),
    ]
    parts.append('<p><a href="/openapi.json">openapi.json</a> · <a href="/docs/problems">problems</a></p><ul>')
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    parts += [
        f'<li><a href="#{_anchor(method, path)}"><code>{method.upper()} {escape(path)}</code></a> {_prose(_in_short(operation))}</li>'
        for path, method, operation in operations
    ]
    parts.append("</ul>")
    for path, method, operation in operations:
        parts += _operation(path, method, operation, schemas)
    return _html("planner API", parts)


def _operation(path: str, method: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterable[str]:
    yield f'<h2 id="{_anchor(method, path)}"><span class="method">{method.upper()}</span> <code>{escape(path)}</code></h2>'
    said = operation.get("description", operation.get("summary", ""))
    yield from (f"<p>{_prose(text)}</p>" for text in said.split("\n\n"))
    if parameters := operation.get("parameters"):
        rows = [(p["name"], p["in"], _type(p.get("schema", {})), p.get("description", "")) for p in parameters]
        yield _table(("parameter", "in", "type", "meaning"), rows)
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content:
        yield "<h3>Body</h3>"
        fields = schemas[content["schema"]["$ref"].rsplit("/", 1)[-1]]["properties"]
        yield _table(
            ("field", "type", "default", "meaning"),
            [
                (name, _type(field), json.dumps(field.get("default")), field.get("description", ""))
                for name, field in fields.items()
            ],
        )
        for example in content["examples"].values():
            body = json.dumps(example["value"], indent=2)
            yield f"<p>{escape(example['summary'])}:</p><pre>curl -s http://127.0.0.1:8000{escape(path)} -H 'Content-Type: application/json' -d '{escape(body)}'</pre>"
    yield "<h3>Responses</h3>"
    yield _table(
        ("status", "meaning"),
        [(status, response["description"]) for status, response in operation["responses"].items()],
    )


def _type(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(arm) for arm in schema["anyOf"])
    if "enum" in schema:
        return " | ".join(str(choice) for choice in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    low, high = schema.get("minimum", schema.get("exclusiveMinimum")), schema.get("maximum")
    bounds = [f"{'>' if 'exclusiveMinimum' in schema else '≥'} {low:g}"] if low is not None else []
    bounds += [f"≤ {high:g}"] if high is not None else []
    return " ".join([str(schema.get("format", schema.get("type", "any"))), ", ".join(bounds)]).strip()


def problems_page() -> str:
    """Return the page that a problem document's `type` points at."""
    parts = [
        "<h1>Problems</h1>",
        "<p>Every error is an <code>application/problem+json</code> document. Compare <code>type</code>; show <code>detail</code>.</p>",
    ]
    parts += [
        f'<h2 id="{kind.slug}">{escape(kind.title)}</h2><p><code>{escape(kind.uri)}</code>, status {kind.status}</p><p>{_prose(kind.meaning)}</p>'
        for kind in KINDS.values()
    ]
    return _html("planner problems", parts)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    def cells(tag: str, row: Iterable[str]) -> str:
        return "".join(f"<{tag}>{_prose(str(cell))}</{tag}>" for cell in row)

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<table><tr>{cells('th', head)}</tr>{body}</table>"


def _prose(text: str) -> str:
    """Return text as HTML; what stands in backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _in_short(operation: Mapping[str, Any]) -> str:
    """Return the beginning of what an operation does."""
    said = str(operation.get("description") or operation.get("summary", ""))
    return re.split(r"[.:;](?=\s|$)", said, maxsplit=1)[0]


def _anchor(method: str, path: str) -> str:
    return f"{method}{''.join(c if c.isalnum() else '-' for c in path)}"


def _html(title: str, parts: Iterable[str]) -> str:
    return f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title><style>{STYLE}</style><main>{"".join(parts)}</main></html>\n'
