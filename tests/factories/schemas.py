"""JSON Schemas as the tests hold documents to them."""

from typing import Any


def closed(schema: Any) -> Any:
    """Return the schema without room for a key it does not name: readers may meet new keys, this version has none."""
    if isinstance(schema, dict):
        inner = {key: closed(value) for key, value in schema.items()}
        return inner | {"additionalProperties": False} if "properties" in schema else inner
    return [closed(item) for item in schema] if isinstance(schema, list) else schema
