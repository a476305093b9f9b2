"""`envdoctor diff`: how two stacks differ, what matters most first."""

import json as json_module
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from envdoctor import __version__
from envdoctor.cli.options import ColorOption, FormatOption, JsonOption, OutputOption, VenvOption, VerboseOption
from envdoctor.cli.terminal import style_for, write_result
from envdoctor.compare.comparable import of_fingerprint, of_profile
from envdoctor.compare.difference import Comparison, Side, compare
from envdoctor.doctor.workspace import Workspace
from envdoctor.documents import fingerprint_file, profile_store
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import UsageError
from envdoctor.exitcodes import ExitCode
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.model.codec import encode
from envdoctor.model.fingerprint import Fingerprint
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.interpreter import Interpreter

_HELP = "A venv, a fingerprint (.json), a profile (name or .toml), or a former venv: VENV@N."


@frozen
class _Named:
    """What one argument names."""

    kind: str
    label: str
    path: str
    """Of a venv, a fingerprint or a profile; a profile's name stays a name."""


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=_HELP)],
    b: Annotated[str, typer.Argument(metavar="[B]", help="The same. Default: the venv of `--venv`.")] = "",
    venv: VenvOption = "",
    output_format: FormatOption = "text",
    json: JsonOption = False,
    output: OutputOption = "",
    color: ColorOption = "auto",
    verbose: VerboseOption = False,
) -> int:
    """Compare two stacks: torch, libraries, files, packages, start-up code, sources, environment, caches, machine.

    Each of A and B is a venv's folder, a fingerprint file, a profile, or VENV@N, the Nth kept generation of a venv.
    Exit codes: 0 equal, 1 different, 2 bad input, 3 equal as far as could be told.
    """
    if b and venv:
        raise UsageError("two stacks and `--venv` are given", "give only two of the three")
    host = Host.current()
    other = _named(b, host) if b else _target(venv, host)
    comparison = compare(*_sides([_named(a, host), other], host))
    if json or output_format == "json":
        text = json_module.dumps(_document(comparison), indent=2) + "\n"
    else:
        from envdoctor.report.as_difference import render

        text = render(comparison, style_for(sys.stdout, os.environ, color=color, verbose=verbose))
    write_result(text, output)
    if comparison.differences:
        return ExitCode.FINDINGS
    return ExitCode.UNKNOWN if comparison.unread else ExitCode.OK


def _named(text: str, host: Host) -> _Named:
    """Tell what an argument names: a path that exists first, then a generation, then a profile."""
    path = Path(host.cwd, text)
    if path.is_dir() or (path.is_file() and path.suffix not in {".json", ".toml"}):
        return _Named(kind="venv", label=text, path=str(path))
    if path.is_file() and path.suffix == ".json":
        return _Named(kind="fingerprint", label=text, path=str(path))
    venv, found, number = text.rpartition("@")
    if found and number.isdecimal():
        return _Named(
            kind="generation", label=text, path=str(_generation(Path(host.cwd, venv or ".venv"), int(number)))
        )
    if text.endswith(".json") or ("/" in text and not text.endswith(".toml")):
        raise UsageError(f"there is no {text}", "name a venv's folder, a fingerprint (.json), a profile, or VENV@N")
    return _Named(kind="profile", label=text, path=text)


def _generation(venv: Path, number: int) -> Path:
    from envdoctor.swap.store import Store

    store = Store.of(venv)
    kept = store.numbers()
    if number not in kept:
        known = ", ".join(map(str, kept)) or "none"
        raise UsageError(f"{venv} has no generation {number}", f"kept are: {known}")
    return next(path for path in store.generations.iterdir() if path.name.isdecimal() and int(path.name) == number)


def _target(venv: str, host: Host) -> _Named:
    target = Workspace.open(venv, host=host).target
    return _Named(kind="venv", label=venv or str(target.prefix), path=str(target.prefix))


def _sides(named: list[_Named], host: Host) -> list[Side]:
    profiles = {item.path: profile_store.find(item.path, host.cwd) for item in named if item.kind == "profile"}
    # A profile says which files of the training code are to be read on the other side.
    facts = [_facts(item, next(iter(profiles.values()), None), host) for item in named]
    interpreter = next((found.get(Interpreter) for found in facts if found), None)
    return [
        of_fingerprint(found, item.label, item.kind)
        if found
        else _profile(profiles[item.path], item.label, interpreter, host)
        for item, found in zip(named, facts, strict=True)
    ]


def _facts(named: _Named, profile: ProfileRef | None, host: Host) -> Fingerprint | None:
    if named.kind == "profile":
        return None
    if named.kind == "fingerprint":
        return fingerprint_file.read(named.path)
    return Workspace(host, named.path, profile).facts(Options(contents=True))


def _profile(file: ProfileRef, label: str, interpreter: Interpreter | None, host: Host) -> Side:
    from envdoctor.wheels.locking import Platform

    wanted = Platform(python=file.profile.python.versions[0], machine=host.machine).markers()
    markers = dict(interpreter.markers()) if interpreter else wanted
    return of_profile(file.profile, file.lock, markers, label)


def _document(comparison: Comparison) -> dict[str, Any]:
    sides = {
        name: {"label": side.label, "kind": side.kind, "digest": side.digest}
        for name, side in (("a", comparison.a), ("b", comparison.b))
    }
    return {
        "schema_version": 1,
        "tool": {"name": "envdoctor", "version": __version__},
        **sides,
        "equal": not comparison.differences and not comparison.unread,
        "digests": comparison.digests,
        "differences": encode(comparison.differences),
        "not_compared": dict(comparison.unread),
    }
