"""The API's description as a page: made of its OpenAPI document, without scripts and without anybody else's server."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_METHODS = ("get", "post")


def page(document: Mapping[str, Any]) -> str:
    """An OpenAPI document as HTML."""
    info = document["info"]
    routes = "".join(_route(path, verbs) for path, verbs in document["paths"].items())
    schemas = "".join(_schema(name, schema) for name, schema in document["components"]["schemas"].items())
    title = escape(f"{info['title']} {info['version']}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width">'
        '<link rel="stylesheet" href="../../static/plain.css"></head>'
        f"<body><main><h1>{title}</h1><p>{escape(info['description'])}</p>"
        '<p><a href="openapi.json">openapi.json</a></p>'
        f"<h2>Routes</h2>{routes}<h2>Types</h2>{schemas}</main></body></html>"
    )


def _route(path: str, verbs: Mapping[str, Any]) -> str:
    text = ""
    for method in _METHODS:
        if method not in verbs:
            continue
        verb = verbs[method]
        rows = "".join(_parameter(one) for one in verb.get("parameters", ()))
        table = f"<table><thead><tr><th>parameter</th><th>in</th><th>type</th><th></th></tr></thead>{rows}</table>"
        body = ", ".join(_types(verb.get("requestBody", {}).get("content", {})))
        answer = ", ".join(_types(verb["responses"].get("200", {}).get("content", {})))
        text += (
            f"<section><h3><code>{method.upper()} {escape(path)}</code></h3>"
            f"<p>{escape(verb.get('description', ''))}</p>"
            f"{table if rows else ''}{f'<p>takes {body}</p>' if body else ''}<p>answers {answer}</p></section>"
        )
    return text


def _types(content: Mapping[str, Any]) -> Iterator[str]:
    for media in content.values():
        yield _type(media.get("schema", {}))


def _parameter(one: Mapping[str, Any]) -> str:
    needed = " (needed)" if one.get("required") else ""
    cells = (escape(one["name"]) + needed, escape(one["in"]), _type(one["schema"]), escape(one.get("description", "")))
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _schema(name: str, schema: Mapping[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(field)}</td><td>{_type(of)}</td></tr>" for field, of in schema.get("properties", {}).items()
    )
    return (
        f'<section id="{escape(name)}"><h3>{escape(name)}</h3><p>{escape(schema.get("description", ""))}</p>'
        f"<table>{rows}</table></section>"
    )


def _type(schema: Mapping[str, Any]) -> str:
    """A type in words, with a link to those that have a name."""
    if "$ref" in schema:
        name = escape(schema["$ref"].rpartition("/")[2])
        return f'<a href="#{name}">{name}</a>'
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(_type(one) for one in schema[several])
    if "enum" in schema:
        return " | ".join(escape(repr(value)) for value in schema["enum"])
    if "const" in schema:
        return escape(repr(schema["const"]))
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    bounds = [f"{word} {schema[key]}" for key, word in (("minimum", "≥"), ("maximum", "≤")) if key in schema]
    return escape(" ".join([kind, *bounds]))
