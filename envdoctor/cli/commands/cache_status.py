"""`envdoctor cache status`: will the caches hit, and if not, because of what."""

from typing import Any

from envdoctor import __version__
from envdoctor.cache import status as cache_status
from envdoctor.cache.manifest import Manifest, load
from envdoctor.cache.status import Status
from envdoctor.cache.store import labels
from envdoctor.cli.cache_options import LiveOption, Subject, subject
from envdoctor.cli.options import (
    FormatOption,
    JsonOption,
    OutputOption,
    ProfileOption,
    VenvArgument,
    VenvOption,
    one_venv,
)
from envdoctor.cli.terminal import write_result
from envdoctor.exitcodes import ExitCode
from envdoctor.model.codec import encode
from envdoctor.probes.caches.compile_caches import CompileCaches
from envdoctor.report.cache_text import status_text

_EXIT = {"hit": ExitCode.OK, "unknown": ExitCode.UNKNOWN}


def status(
    venv: VenvArgument = "",
    venv_option: VenvOption = "",
    profile: ProfileOption = "",
    live: LiveOption = False,
    output_format: FormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
) -> int:
    """Say whether the compile caches of a venv will hit for its torch, Triton, GPU and configuration, and why not.

    Without `--live` nothing of the venv is run. Exit codes: 0 they will hit, 1 they will not or not all, 2 bad input,
    3 could not tell.
    """
    asked = subject(one_venv(venv, venv_option), profile)
    found = look(asked, live=live)
    if json or output_format == "json":
        from envdoctor.report.as_json import dump

        text = dump(document(asked, found))
    else:
        text = status_text(
            found,
            str(asked.reading.target.prefix),
            asked.profile.name if asked.profile else "",
            asked.profile_asked,
        )
    write_result(text, output)
    return _EXIT.get(found.state, ExitCode.FINDINGS)


def look(asked: Subject, *, live: bool = False) -> Status:
    """Return the status of the caches the subject would use."""
    return cache_status.examine(
        asked.reading.fact(CompileCaches).caches,
        known_manifests(asked),
        asked.key(live=live),
        uid=asked.host.uid,
        environ=asked.host.environ,
        wanted=asked.profile.compile if asked.profile else None,
        live=live,
    )


def known_manifests(asked: Subject) -> tuple[Manifest, ...]:
    """Return the manifests that may describe the subject's caches: those inside, and the profile's last warm-up."""
    inside = labels(asked.inductor)
    kept = load(asked.store.warm_manifest(asked.profile.name)) if asked.profile else None
    return (*inside, *((kept,) if kept else ()))


def document(asked: Subject, found: Status) -> dict[str, Any]:
    """Return the status as plain values; of a manifest's files only the number."""
    plain = encode(found)
    if found.match:
        manifest = plain["match"]["manifest"]
        manifest["files"] = len(found.match.manifest.files)
        manifest["bytes"] = found.match.manifest.bytes
        manifest["key_digest"] = found.match.manifest.key_digest
    return {
        "schema_version": 1,
        "tool": {"name": "envdoctor", "version": __version__},
        "target": str(asked.reading.target.prefix),
        "profile": asked.profile.name if asked.profile else None,
        **plain,
    }
