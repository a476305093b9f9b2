"""`envdoctor cache list`: the snapshots there are."""

from typing import Any

from envdoctor import __version__
from envdoctor.cache.archive import reading
from envdoctor.cache.manifest import fingerprint
from envdoctor.cache.store import Store
from envdoctor.cli.options import FormatOption, JsonOption
from envdoctor.cli.terminal import write_result
from envdoctor.errors import CacheError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.host import Host
from envdoctor.report.cache_text import entries, megabytes


def list_(output_format: FormatOption = "text", json: JsonOption = False) -> int:
    """List the snapshots of the store with their key, size and profile."""
    store = Store.of(Host.current())
    found = [_describe(path) for path in store.archives()]
    if json or output_format == "json":
        from envdoctor.report.as_json import dump

        write_result(
            dump({"schema_version": 1, "tool": {"name": "envdoctor", "version": __version__}, "snapshots": found})
        )
    else:
        write_result("".join(map(_line, found)) or f"no snapshots in {store.folder}\n")
    return ExitCode.OK


def _describe(path: Any) -> dict[str, Any]:
    described: dict[str, Any] = {"path": str(path), "bytes": path.stat().st_size}
    try:
        with reading(path) as reader:
            manifest, text = reader.manifest()
    except CacheError as error:
        return described | {"problem": error.message}
    return described | {
        "name": manifest.name,
        "profile": manifest.profile,
        "made_at": manifest.made_at,
        "key": manifest.key_digest,
        "digest": fingerprint(text),
        "files": len(manifest.files),
        "unpacked_bytes": manifest.bytes,
        "entries": dict(manifest.entries),
    }


def _line(found: dict[str, Any]) -> str:
    if "problem" in found:
        return f"{found['path']}: {found['problem']}\n"
    of = f", profile {found['profile']}" if found["profile"] else ""
    return (
        f"{found['name']}: {found['made_at']}{of}, key {found['key']}, {megabytes(found['unpacked_bytes'])} in "
        f"{found['files']} files ({megabytes(found['bytes'])} packed): {entries(found['entries'])}\n"
    )
