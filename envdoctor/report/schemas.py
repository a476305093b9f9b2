"""The JSON Schemas that are shipped, one a document."""

from pathlib import Path

_FOLDER = Path(__file__).parent / "schema"


def names() -> tuple[str, ...]:
    """Return the names of the documents, sorted: "check", "cache-status"."""
    return tuple(sorted(path.stem.rpartition("-")[0] for path in _FOLDER.glob("*.json")))


def read(name: str) -> str:
    """Return the newest schema of that document as text. Raises KeyError for a name that has none."""
    versions = [path for path in _FOLDER.glob("*.json") if path.stem.rpartition("-")[0] == name]
    if not versions:
        raise KeyError(name)
    return max(versions, key=lambda path: int(path.stem.rpartition("-")[2])).read_text(encoding="utf-8")
