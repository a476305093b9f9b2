"""`envdoctor lock`: resolve requirements into a hashed lock that names no host."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from envdoctor.cli.options import WithGateOption
from envdoctor.cli.terminal import say, write_result
from envdoctor.documents.profile_store import read_lock
from envdoctor.errors import UsageError
from envdoctor.facts.host import Host
from envdoctor.model.wording import counted
from envdoctor.standards.lock import Lock, LockedPackage
from envdoctor.standards.pylock import is_pylock
from envdoctor.wheels import index_config, locking, pip_config
from envdoctor.wheels import uv as uv_tool
from envdoctor.wheels.pylock_text import Form, LockedWheel


def lock(
    requirements: Annotated[str, typer.Argument(metavar="FILE", help="Direct requirements, one a line.")],
    python: Annotated[
        list[str], typer.Option("--python", metavar="VERSION", help="Python the lock fits. Can be repeated.")
    ] = ["3.12"],  # noqa: B006 - typer reads the default and never shares it
    machine: Annotated[
        list[str], typer.Option("--machine", metavar="NAME", help="Machine the lock fits. Can be repeated.")
    ] = ["x86_64"],  # noqa: B006
    exclude_newer: Annotated[
        str, typer.Option("--exclude-newer", metavar="TIME", help="Use nothing uploaded later (2026-04-24T00:00:00Z).")
    ] = "",
    undated: Annotated[
        list[str],
        typer.Option("--undated", metavar="NAME", help="Distribution whose source states no upload time."),
    ] = [],  # noqa: B006
    torch_backend: Annotated[
        str, typer.Option("--torch-backend", metavar="NAME", help="uv's torch backend: cu128, cpu.")
    ] = "",
    upgrade: Annotated[
        list[str],
        typer.Option(
            "--upgrade",
            metavar="NAME",
            help="Move only this distribution; other pins of the lock stay. Can be repeated.",
        ),
    ] = [],  # noqa: B006
    lock_format: Annotated[
        Form, typer.Option("--format", help="Hashed requirements that name no host, or PEP 751 (pylock.NAME.toml).")
    ] = "requirements",
    with_gate: WithGateOption = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="The lock; its head comment is kept. Default: stdout.")
    ] = "",
) -> int:
    """Resolve requirements with uv and write name==version with the sha256 of every wheel that fits.

    A requirement line may carry --hash options: attested hashes of wheels that cannot be seen from here. With
    --upgrade the lock that --output names is updated instead of made anew.
    """
    path = Path(requirements)
    known = locking.attested(_text(path), str(path))
    target = Path(output) if output not in {"", "-"} else None
    _refuse_names(target, lock_format)
    wanted = locking.Wanted(
        requirements=path,
        platforms=tuple(locking.Platform(python=version, machine=name) for version in python for name in machine),
        before=exclude_newer,
        undated=tuple(undated),
        torch_backend=torch_backend,
        kept=_pins(target, upgrade),
        upgrade=tuple(upgrade),
    )
    resolved = _resolved(wanted)
    made = locking.lock_of(resolved, wanted.platforms, path.stem, known)
    gate = _kept_gate(target) if with_gate else None
    content = _content(resolved, made, gate, lock_format, locking.head_of(target))
    write_result(content, output)
    if target is not None:
        say(f"locked {counted(len(made.packages), 'package')} in {target}")
    return 0


def _resolved(wanted: locking.Wanted) -> dict[str, Any]:
    host = Host.current()
    uv = uv_tool.locate(host.environ, host.cwd)
    pip = pip_config.read(host.environ, host.home)
    sources = index_config.configured(uv, _dated(pip) if wanted.before else pip, host.home, sys.executable)
    return locking.resolve(wanted, uv, sources.everywhere)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}", "name a file of direct requirements") from error


def _kept_gate(target: Path | None) -> LockedWheel:
    if target is None:
        raise UsageError("--with-gate puts a wheel beside the lock, which is no file", "name one: `--output FILE`")
    from envdoctor.gate_package.into_lock import keep_wheel
    from envdoctor.wheels.wheelhouse import beside

    # The folder has the profile's name, and a lock that of its profile.
    return keep_wheel(beside(target, target.stem.removeprefix("pylock.")))


def _content(resolved: Mapping[str, Any], made: Lock, gate: LockedWheel | None, lock_format: Form, head: str) -> str:
    from envdoctor.gate_package.into_lock import document_with, locked
    from envdoctor.wheels import pylock_text

    if lock_format == "requirements":
        return locking.text_of(locked(made, gate) if gate else made, head)
    document = pylock_text.narrowed(resolved, made)
    return pylock_text.text_of(document_with(document, gate) if gate else document, head)


def _dated(pip: pip_config.PipSettings) -> pip_config.PipSettings:
    """Leave out indexes on disk: they state no upload times, and uv then takes an older version from elsewhere."""
    undated = tuple(url for url in pip.extra_index_urls if url.startswith("file:"))
    for url in undated:
        say(f"note: {url} states no upload times, so it is not asked with --exclude-newer")
    return replace(pip, extra_index_urls=tuple(url for url in pip.extra_index_urls if url not in undated))


def _refuse_names(target: Path | None, lock_format: Form) -> None:
    """Refuse a file name that says another format than the lock's: what reads it goes by the name."""
    if target is not None and is_pylock(target.name) != (lock_format == "pylock"):
        wanted = "pylock.NAME.toml" if lock_format == "pylock" else "NAME.txt"
        raise UsageError(f"{target.name} cannot name a lock of the format {lock_format}", f"call it {wanted}")


def _pins(target: Path | None, upgrade: list[str]) -> tuple[LockedPackage, ...]:
    """Return the pins of the lock that is updated; none when all of it is resolved anew."""
    if not upgrade:
        return ()
    if target is None or not target.is_file():
        raise UsageError("--upgrade updates a lock, and there is none", "name it: `--output FILE`")
    return read_lock(target).packages
