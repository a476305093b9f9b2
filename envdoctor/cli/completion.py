"""Values that a shell offers for a word that was begun: read from names alone, in a moment, and never with an error."""

import contextlib
import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from typer import _completion_classes

VARIABLE = "_ENVDOCTOR_COMPLETE"
"""Set by the shell when it asks for values instead of running a command."""
_SECONDS = 2.0
"""After this a folder that does not answer is given up: the shell waits, and offers files instead."""
_MOST = 5_000
"""Files of a venv that are looked at by name."""
_AT = "@"
Offered = list[tuple[str, str]]
"""Words, each with what zsh and fish show beside it."""


def answering(run: Callable[[], object]) -> int:
    """Let typer answer the shell; whatever goes wrong, nothing but values is printed."""
    # typer renders each help with rich, in lines that zsh cannot read, and loading rich costs as much as the rest.
    _completion_classes._sanitize_help_text = _brief  # noqa: SLF001 - typer has no public hook for this
    cut = _joined_at_signs() if os.environ[VARIABLE] == "complete_bash" else 0
    found = io.StringIO()
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS)
    # Even a KeyboardInterrupt and typer's SystemExit end here: a prompt is no place for a message.
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(found):
        with contextlib.suppress(Exception, SystemExit, KeyboardInterrupt):
            run()
        signal.setitimer(signal.ITIMER_REAL, 0)
    sys.stdout.write("".join(f"{line[cut:]}\n" for line in found.getvalue().splitlines()) if cut else found.getvalue())
    return 0


def _brief(text: str) -> str:
    """Return the first clause of a help, without signs that mean something to a shell."""
    clause = re.split(r"[.;:(]", re.sub(r"[`'\"\\$<>|&]", "", text), maxsplit=1)[0]
    return " ".join(clause.split())


def _give_up(number: int, frame: object) -> None:
    del number, frame
    raise TimeoutError


def _joined_at_signs() -> int:
    """Put back together what bash parts at an `@`, as in `.venv@2`; return how many letters it has already.

    Its COMP_WORDBREAKS makes three words of that; what is offered replaces the `@` and what follows it.
    """
    words = os.environ.get("COMP_WORDS", "").split("\n" if "\n" in os.environ.get("COMP_WORDS", "") else " ")
    at = int(os.environ.get("COMP_CWORD", "0"))
    begun = words[at] if at < len(words) else ""
    sign = at if begun == _AT else at - 1
    if sign < 2 or words[sign] != _AT:
        return 0
    venv = words[sign - 1]
    os.environ["COMP_WORDS"] = "\n".join([*words[: sign - 1], "".join([venv, *words[sign : at + 1]])])
    os.environ["COMP_CWORD"] = str(sign - 1)
    return len(venv)


def profiles(incomplete: str) -> list[str]:
    """Return the profiles that can be named here and begin so."""
    from envdoctor.documents import profile_store

    return [name for name in profile_store.names(Path.cwd()) if name.startswith(incomplete)]


def checks(incomplete: str) -> list[str]:
    """Return the codes and names of checks that begin so, in any case."""
    from envdoctor.app.checks import all_rules

    begun = incomplete.lower()
    return [word for rule in all_rules() for word in (rule.code, rule.name) if word.lower().startswith(begun)]


def waived(incomplete: str) -> Offered:
    """Return the codes of checks as `--ignore` takes them, with what each finds."""
    from envdoctor.app.checks import all_rules

    return [(f"{rule.code}=", rule.name) for rule in all_rules() if rule.code.startswith(incomplete.upper())]


def documents(incomplete: str) -> list[str]:
    """Return the documents with a schema that begin so."""
    from envdoctor.report import schemas

    return [name for name in schemas.names() if name.startswith(incomplete)]


def distributions(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the distributions of the venv of the command line, by the names of their metadata folders."""
    found = {path.name.partition("-")[0].replace("_", "-").lower() for path in _site(ctx, "*.dist-info")}
    return sorted(name for name in found if name.startswith(incomplete.lower()))


def named_things(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return what `why` can be asked: libraries of the venv, those of CUDA that may be missing, and distributions."""
    libraries: set[str] = set()
    if not incomplete or "lib".startswith(incomplete[:3]):
        folders = ("torch/lib", "nvidia/*/lib", "*.libs", "triton/backends/*/lib")
        files = (name for folder in folders for path in _site(ctx, folder) for name in _names(path))
        libraries = {name for name, _ in zip(files, range(_MOST), strict=False) if ".so" in name}
        from envdoctor.catalog.cudalibs import LIBRARIES

        libraries |= {soname for library in LIBRARIES for build in library.builds for soname in build.sonames}
    return sorted(name for name in libraries if name.startswith(incomplete)) + distributions(ctx, incomplete)


def backups(ctx: typer.Context, incomplete: str) -> Offered:
    """Return the numbers of the backups of the venv, newest first."""
    return [(number, told) for number, told in _backups(_folder(ctx)) if number.startswith(incomplete)]


def stacks(ctx: typer.Context, incomplete: str) -> Offered:
    """Return what `diff` and `bisect` can compare beside files: profiles, and the backups of a venv as VENV@N."""
    venv = incomplete.partition(_AT)[0]
    folder = Path(venv) if venv and Path(venv, "pyvenv.cfg").is_file() else _folder(ctx)
    shown = venv if venv and folder == Path(venv) else ".venv"
    here = folder in (Path(shown), Path.cwd() / shown)
    kept = [(shown, "the venv"), *((f"{shown}{_AT}{at}", told) for at, told in _backups(folder))] if here else []
    named = [(name, "profile") for name in profiles(incomplete)]
    return [*named, *((name, told) for name, told in kept if name.startswith(incomplete))]


def snapshots(incomplete: str) -> list[str]:
    """Return the snapshots of the store that begin so."""
    from envdoctor.cache.store import SUFFIX, SnapshotStore
    from envdoctor.facts.host import Host

    names = (path.name.removesuffix(SUFFIX) for path in SnapshotStore.of(Host.current()).archives())
    return [name for name in names if name.startswith(incomplete)]


def _backups(folder: Path) -> Iterator[tuple[str, str]]:
    from envdoctor.swap.store import BackupStore

    store = BackupStore.of(folder)
    for number in reversed(store.numbers()):
        versions = [path.name.split("-")[1] for path in store.generation(number).glob(_SITE + "torch-*.dist-info")]
        yield str(number), f"torch {versions[0].removesuffix('.dist')}" if versions else "without torch"


_SITE = "lib/python3.*/site-packages/"


def _site(ctx: typer.Context, pattern: str) -> Iterator[Path]:
    return _folder(ctx).glob(_SITE + pattern)


def _names(folder: Path) -> Iterator[str]:
    with contextlib.suppress(OSError):
        yield from (entry.name for entry in os.scandir(folder))


def _folder(ctx: Any) -> Path:
    """Return the folder of the venv that the words before name, else the default one."""
    from envdoctor.doctor.workspace import Workspace

    return Workspace.open(str(ctx.params.get("venv_option") or ctx.params.get("venv") or "")).folder
