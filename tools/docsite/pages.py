"""Pages made from the program: commands from what the command line declares, documents from the shipped schemas."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from envdoctor.cli.app import build
from envdoctor.report import schemas

_MADE = "<!-- Made from the program by tools/docsite. -->"


def commands() -> dict[str, str]:
    """Return name of a page -> its text, one a command, in the order of `envdoctor --help`."""
    root = build()
    context = root.make_context("envdoctor", ["check"])
    return {f"commands/{name.replace(' ', '-')}.md": text for name, text in _commands(root, context, "")}


def _commands(group: Any, context: Any, path: str) -> Iterator[tuple[str, str]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        own = type(context)(command, info_name=name, parent=context)
        whole = f"{path} {name}".strip()
        yield whole, _command(whole, command, own)
        if hasattr(command, "list_commands"):
            yield from _commands(command, own, whole)


def _command(name: str, command: Any, context: Any) -> str:
    blocks = [_MADE, f"# envdoctor {name}", _text(command.help or "")]
    if hasattr(command, "list_commands"):
        inner = [f"{name} {sub}" for sub in command.list_commands(context)]
        blocks.append("\n".join(f"- [envdoctor {sub}]({sub.replace(' ', '-')}.md)" for sub in inner))
    blocks.append(f"```text\n{' '.join(('envdoctor', name, *command.collect_usage_pieces(context)))}\n```")
    for title, kind in (("Arguments", "argument"), ("Options", "option")):
        rows = [param.get_help_record(context) for param in command.params if param.param_type_name == kind]
        lines = [f"- `{row[0]}`: {_text(row[1])}" for row in rows if row]
        blocks += [f"## {title}", "\n".join(lines)] if lines else []
    return "\n\n".join(filter(None, blocks)) + "\n"


def _text(text: str) -> str:
    """Return a help text as Markdown: its words, and no sign that Markdown would take for its own."""
    return re.sub(r"([<*\[\]])", r"\\\1", text)


def documents() -> dict[str, str]:
    """Return name of a page -> its text, one a JSON document."""
    return {f"documents/{name}.md": _document(name, json.loads(schemas.read(name))) for name in schemas.names()}


def _document(name: str, schema: Mapping[str, Any]) -> str:
    version = schema["properties"]["schema_version"]["const"]
    about = f"`envdoctor schema {name}` prints the JSON Schema."
    keys = list(_keys(schema, schema, ""))
    head = f"# {name}\n\nThe document of `{schema.get('title', name)}`, version {version}. {about}"
    return f"{_MADE}\n\n{head}\n\n| key | type | meaning |\n|---|---|---|\n" + "\n".join(keys) + "\n"


def _keys(schema: Mapping[str, Any], whole: Mapping[str, Any], prefix: str, depth: int = 0) -> Iterator[str]:
    for key, given in schema.get("properties", {}).items():
        value = _resolved(given, whole)
        name = f"{prefix}{key}"
        optional = "" if key in schema.get("required", ()) else " (optional)"
        text = " ".join(str(value.get("description", "")).replace("|", "\\|").split())
        yield f"| `{name}`{optional} | {_type(value)} | {text} |"
        inner = _resolved(value.get("items", {}), whole) if "items" in value else value
        if depth < 4:
            yield from _keys(inner, whole, f"{name}[]." if "items" in value else f"{name}.", depth + 1)


def _resolved(schema: Any, whole: Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(schema, dict):
        return {}
    found: Any = schema
    if "$ref" in schema:
        found = whole
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        found = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    for kind in ("anyOf", "oneOf"):
        objects = [_resolved(option, whole) for option in found.get(kind, ())]
        inner = next((option for option in objects if "properties" in option or "items" in option), None)
        found = {**inner, **found, "nullable": True} if inner else found
    return found


def _type(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    named = schema.get("type", "")
    kinds = [named] if isinstance(named, str) else list(named)
    kinds += ["null"] if schema.get("nullable") and "null" not in kinds else []
    return " or ".join(filter(None, kinds))
