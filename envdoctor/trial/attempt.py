"""A change that is tried: the user's own installer, or a shell, in a copy of the venv, compared, and kept or not."""

import os
import shlex
import shutil
import stat
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from envdoctor.documents.profile_store import ProfileRef
from envdoctor.errors import RestoreError, UsageError
from envdoctor.explore.addition import compared
from envdoctor.explore.environment import ExploredEnvironment, explore
from envdoctor.explore.scratch import Scratch
from envdoctor.facts.children import kill, start_child
from envdoctor.facts.host import Host
from envdoctor.facts.left_running import ending_all
from envdoctor.facts.on_failure import on_failure
from envdoctor.facts.target import resolve
from envdoctor.model.frozen import frozen
from envdoctor.model.impact import Impact
from envdoctor.model.wording import counted
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.standards.redaction import redacted_words
from envdoctor.swap.caches_inside import CachesInside
from envdoctor.swap.permissions import carry_over
from envdoctor.swap.store import remove_tree
from envdoctor.swap.swap import sync_file_system
from envdoctor.trial.command import Criterion, Run, run
from envdoctor.trial.launch import as_typed, launch_environment, placed, tested_environment
from envdoctor.trial.mixture import shown
from envdoctor.trial.own_caches import own_caches
from envdoctor.trial.relocation import relate, relocate
from envdoctor.trial.tree import VenvTree
from envdoctor.wheels.read_whole import refuse_unbounded
from envdoctor.wheels.uv import own_binary

Stage = Callable[[str], AbstractContextManager[None]]
SHELL = ("shell",)
# Options with which pip and uv install somewhere else.
_ELSEWHERE = (
    "--python",
    "-p",
    "--system",
    "--target",
    "-t",
    "--prefix",
    "--root",
    "--user",
    "--project",
    "--directory",
)
# Variables with which they do.
_LEADING_ELSEWHERE = (
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_PROJECT",
    "UV_WORKING_DIRECTORY",
    "PIP_PYTHON",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_ROOT",
    "PIP_USER",
)
_UV_COMMANDS = ("pip", "sync", "add", "remove")
_UV_GLOBAL_WITH_VALUE = ("--color", "--cache-dir", "--config-file", "--allow-insecure-host", "--python-preference")
_SHORT, _SHORTENED = 2, 6
_EDITABLE = 1 << 20
"""Bytes up to which an editor or `>>` may write into a file of the copy: larger ones are libraries."""


@frozen
class TryRequest:
    """What is to be tried on which venv."""

    target: Path
    command: tuple[str, ...]
    """The installer's command line, or SHELL."""
    names: tuple[str, ...] = ()
    """What its files may call it besides: a link that leads to it."""
    profile: ProfileRef | None = None
    test: tuple[str, ...] = ()
    timeout: float = 600.0

    @property
    def shell(self) -> bool:
        """Tell whether the user makes the change in a shell."""
        return self.command == SHELL


@frozen
class Tried:
    """What became of the copy."""

    impact: Impact
    changed: bool
    """False where the copy's files are still those of the venv."""
    test: Run | None = None
    test_output: str = ""
    """The last lines that the test printed, where it failed."""
    ended: tuple[str, ...] = ()
    """Command lines of processes that the installer or the shell left running: they were ended."""

    @property
    def harmful(self) -> bool:
        """Tell whether something would break, or the test failed."""
        return self.impact.harmful or (self.test is not None and self.test.code != 0)


def refuse_elsewhere(request: TryRequest, host: Host) -> None:
    """Raise UsageError for a command that would change something else than the copy."""
    words = request.command
    if request.shell:
        return
    program = words[0].rpartition("/")[2]
    elsewhere = next(filter(_leads_elsewhere, words), None)
    installs = program.startswith(("pip", "uv")) or words[1:3] == ("-m", "pip")
    if installs and elsewhere:
        raise UsageError(
            f"`{elsewhere}` leads the installer elsewhere, and the copy is what it must change",
            f"omit it: `envdoctor try --venv {shlex.quote(str(request.target))} -- …` says which venv is meant",
        )
    if program == "uv" and _uv_command(words) not in _UV_COMMANDS:
        raise UsageError(
            f"`{as_typed(redacted_words(words))}` does not change a venv",
            "as in `envdoctor try -- uv pip install numpy==2.4.4`",
        )
    if "/" in words[0] and program.startswith(("pip", "python")) and not _of_the_copy(request, host):
        raise UsageError(
            f"`{words[0]}` is not in {request.target}", f"name it without its folder: `envdoctor try -- {program} …`"
        )
    if program.startswith("pip") and request.target.is_dir() and not (request.target / "bin" / program).exists():
        raise UsageError(
            f"{request.target} has no {program}, and another one would install somewhere else",
            "use `uv pip`: `envdoctor try -- uv pip install …`",
        )
    if not program.startswith(("pip", "python")) and _program(words[0], host, request.target) is None:
        raise UsageError(
            f"`{words[0]}` is neither in {request.target}/bin nor on PATH",
            "name a program that is: `envdoctor try -- uv pip install …`",
        )


def _of_the_copy(request: TryRequest, host: Host) -> bool:
    """Tell whether the program that is named by its path is in the venv: then it is taken from the copy."""
    copy = Path("/copy")
    return placed(request.command[:1], _names(request, host), copy, Path(host.cwd))[0].startswith(f"{copy}/")


def _uv_command(words: Sequence[str]) -> str:
    """Return the command that follows uv's global options; empty for none."""
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-"):
            return word
        if word in _UV_GLOBAL_WITH_VALUE:
            next(rest, None)
    return ""


def _leads_elsewhere(word: str) -> bool:
    """Tell an option of _ELSEWHERE, also with its value in one word (`-t/x`), or shortened for pip (`--targ`)."""
    name = word.partition("=")[0]
    short = len(word) > _SHORT and word[:_SHORT] in ("-t", "-p") and not word.startswith("--")
    shortened = len(name) >= _SHORTENED and any(option.startswith(name) for option in _ELSEWHERE)
    return name in _ELSEWHERE or short or (name.startswith("--") and shortened)


def _program(name: str, host: Host, venv: Path) -> str | None:
    """Return what PATH finds with the venv's bin first, and for `uv` else the one that envdoctor brings."""
    if "/" in name:
        path = Path(host.cwd, name)
        return str(path) if os.access(path, os.X_OK) else None
    search = f"{venv}/bin{os.pathsep}{host.environ.get('PATH', os.defpath)}"
    return shutil.which(name, path=search) or (own_binary() if name == "uv" else None)


def attempt(
    request: TryRequest,
    host: Host,
    folder: Path,
    stage: Stage,
    made: Callable[[], None],
    note: Callable[[str], None],
) -> tuple[Scratch, Tried]:
    """Make the copy in `folder`, which does not exist, and the change in it; compare and test it.

    `made` is called once the copy is there, and again after the change: an installer may make the folder again.
    `note` is told of permissions that were set back, and of what is waited for.
    Raises UsageError, RestoreError. The copy's scripts name the copy then: `finish` puts the venv's name back.
    """
    with stage(f"reading {request.target}"):
        before = explore(resolve(request.target), host)
    if not before.reading.fact(Interpreter).is_venv:
        raise UsageError(f"{request.target} is not a venv, and only a venv can be copied", "name one: `--venv PATH`")
    if _installs(request):
        refuse_unbounded(venv=request.target, project=Path(host.cwd))
    scratch = Scratch(source=str(request.target), copy=str(folder), copy_up_to=-1 if _installs(request) else _EDITABLE)
    with stage(f"copying {request.target}"):
        scratch.fill()
        made()
        as_it_was = VenvTree(request.target)
        relocate(folder, (*as_it_was.names, *request.names), folder, request.target)
        as_made = VenvTree(folder)
    caches = own_caches(host, _caches(folder), warm=True)
    unset = dict.fromkeys(_LEADING_ELSEWHERE)
    environment = launch_environment(host.environ, folder, {**caches, **unset}, _names(request, host), Path(host.cwd))
    try:
        ended = _change(request, environment, host, folder, note)
    finally:
        made()
    with stage("looking at what was changed in the copy"):
        _refuse_removed(request, folder)
        _refuse_changed(request, as_it_was, scratch, host, note)
        scratch.refuse_changes()
    if VenvTree(folder).entries == as_made.entries:
        impact = _compared(request, before, before, scratch)
        return scratch, Tried(impact=impact, changed=False, ended=ended)
    # First: what it changes in the copy is compared too.
    test, output = _tested(request, environment, host, folder, note)
    _refuse_removed(request, folder)
    _refuse_changed(request, as_it_was, scratch, host, note)
    with stage("comparing the copy with the venv"):
        impact = _compared(request, before, explore(resolve(folder), host), scratch)
    return scratch, Tried(impact=impact, changed=True, ended=ended, test=test, test_output=output)


def finish(request: TryRequest, folder: Path) -> None:
    """Make the copy ready to be swapped in."""
    remove_tree(_caches(folder))
    relocate(folder, (str(folder),), request.target)
    relate(folder, VenvTree(request.target))
    carry_over(request.target, folder)
    sync_file_system(folder)


def _caches(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-caches")


def _compared(request: TryRequest, before: ExploredEnvironment, after: ExploredEnvironment, scratch: Scratch) -> Impact:
    return compared(before, after, scratch, redacted_words(request.command), action="try", profile=request.profile)


def _change(
    request: TryRequest, environment: Mapping[str, str], host: Host, copy: Path, note: Callable[[str], None]
) -> tuple[str, ...]:
    """Run the command in the copy; return the command lines of what it left running, which was ended."""
    command = placed(request.command, _names(request, host), copy, Path(host.cwd), environment["PATH"])
    if request.shell:
        command = [environment.get("SHELL") or "/bin/sh"]
    program = _program("uv", host, copy) if command[0] == "uv" else None
    try:
        with ending_all(note) as started:
            # stdout belongs to the result.
            process = start_child(
                command, executable=program, env={**environment, **started.mark}, cwd=host.cwd, stdout=sys.stderr
            )
            with on_failure(partial(kill, process)):
                process.wait()
    except OSError as error:
        raise UsageError(f"cannot start `{command[0]}`: {error.strerror}", "name a program on PATH") from error
    if process.returncode and not request.shell:
        typed = as_typed(redacted_words(request.command))
        raise RestoreError(
            f"`{typed}` ended with exit code {process.returncode} in the copy, which was removed; "
            f"{request.target} is as it was",
            "what it printed above says why",
        )
    return tuple(started.ended)


def _names(request: TryRequest, host: Host) -> tuple[str, ...]:
    """Return what the command may call the venv."""
    return (str(request.target), *(str(Path(host.cwd, name)) for name in request.names))


def _refuse_removed(request: TryRequest, copy: Path) -> None:
    if copy.is_dir() and not copy.is_symlink():
        return
    if os.path.lexists(copy):
        copy.unlink()
    raise RestoreError(
        f"the command removed the copy that it was to work on; {request.target} is as it was",
        "let it change what is in $VIRTUAL_ENV, and leave the folder itself",
    )


def _installs(request: TryRequest) -> bool:
    """Tell pip and uv, which replace files and never write into them, from what may do anything: a shell."""
    return not request.shell and request.command[0].rpartition("/")[2].startswith(("pip", "uv"))


def _refuse_changed(
    request: TryRequest, before: VenvTree, scratch: Scratch, host: Host, note: Callable[[str], None]
) -> None:
    now = VenvTree(request.target)
    caches = CachesInside(request.target, host)
    set_back: list[str] = []
    for path, entry in now.entries.items():
        # The mode is the inode's, which a linked file shares: a `chmod -R` of the copy is taken back here. One of the
        # venv itself looks the same, so it is said.
        was = before.entries.get(path)
        if was and was.mode != entry.mode and was[1:] == entry[1:] and f"{before.root}/{path}" in scratch.linked:
            Path(before.root, path).chmod(stat.S_IMODE(was.mode))
            now.entries[path] = was
            set_back.append(path)
    if set_back:
        note(
            f"the copy shares {counted(len(set_back), 'file')} with {request.target} whose permissions were changed "
            f"meanwhile, there or in the copy; they are set back: {shown(sorted(set_back))}"
        )
    changed = sorted(
        path
        for path in before.entries.keys() | now.entries.keys()
        if before.entries.get(path) != now.entries.get(path) and not caches.hold(path)
    )
    if changed:
        raise RestoreError(
            f"{counted(len(changed), 'file')} of {request.target} itself changed meanwhile: {shown(changed)}",
            "the command did not keep to $VIRTUAL_ENV, or something else changes that venv: `envdoctor check` it",
        )


def _tested(
    request: TryRequest, environment: Mapping[str, str], host: Host, folder: Path, note: Callable[[str], None]
) -> tuple[Run | None, str]:
    """Return the run of the test, where there is one, and the last lines that it printed if it failed."""
    if not request.test:
        return None, ""
    log = _caches(folder) / "test.log"
    test = placed(request.test, _names(request, host), folder, Path(host.cwd), environment["PATH"])
    done = run(test, tested_environment(environment), host.cwd, log, Criterion(timeout=request.timeout), note)
    text = log.read_text(encoding="utf-8", errors="replace")
    return done, "\n".join(text.splitlines()[-20:]) if done.code else ""


def from_text(test: str) -> Sequence[str]:
    """Return the words of a command that was given as one text. Raises UsageError."""
    try:
        return shlex.split(test)
    except ValueError as error:
        raise UsageError(f"--test {test}: {error}", "as in `--test 'python -c \"import torch\"'`") from error
