"""Which running processes use a venv: what they have open stays theirs, what they open later is the new venv's.

Read from /proc (proc(5)), as far as the kernel lets one look. Nothing is guessed: a process counts when it maps a file
of the venv, when the program it was started as is in the venv's bin folder, or when it works inside the folder.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from envdoctor.facts.processes import command_line, processes, strings
from envdoctor.model.plan import VenvUser
from envdoctor.swap.store import STORE


def users(venv: Path, proc: Path, own: int | None = None) -> tuple[VenvUser, ...]:
    """Return the processes that use the venv (its path with symlinks resolved).

    `own` (this process unless given) is left out, and what it started: uv and the interpreters that are asked. Where
    no venv exists, no process is looked at.
    """
    return users_of([venv], proc, own)[venv]


def users_of(venvs: Sequence[Path], proc: Path, own: int | None = None) -> dict[Path, tuple[VenvUser, ...]]:
    """Return the same for several venvs: each process is looked at once."""
    there = [venv for venv in venvs if os.path.lexists(venv)]
    mine = os.getpid() if own is None else own
    found: dict[Path, list[VenvUser]] = {venv: [] for venv in venvs}
    for venv, user in _users(there, proc) if there else ():
        if not _descends(user.pid, mine, proc):
            found[venv].append(user)
    return {venv: tuple(using) for venv, using in found.items()}


def _descends(pid: int, ancestor: int, proc: Path) -> bool:
    while pid and pid != ancestor:
        try:
            # The name, in parentheses, may hold any character; then the state and the parent follow (proc(5)).
            pid = int((proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[1])
        except (OSError, IndexError):
            return False  # it has ended
    return pid == ancestor


def _users(venvs: Sequence[Path], proc: Path) -> Iterator[tuple[Path, VenvUser]]:
    for process in processes(proc):
        words = strings(process / "cmdline")
        if not words:
            continue  # the kernel's own, or it has ended
        command, maps = command_line(words), _maps(process)
        for venv in venvs:
            mapped = _mapped(maps, venv)
            if mapped or _started_from(process, words[0], venv):
                yield venv, VenvUser(pid=int(process.name), command=command, how="runs", mapped=mapped)
            elif _inside(process, venv):
                yield venv, VenvUser(pid=int(process.name), command=command, how="works inside")


def _maps(process: Path) -> bytes:
    try:
        return (process / "maps").read_bytes()
    except OSError:
        return b""  # it has ended, or is another user's


def _mapped(maps: bytes, venv: Path) -> int:
    """Return how many files of the venv are mapped."""
    # The kernel writes a line feed inside a path as \012 (seq_file(9)).
    inside = os.fsencode(venv).replace(b"\n", b"\\012") + b"/"
    if inside not in maps:
        return 0
    paths = (line.split(maxsplit=5)[-1] for line in maps.splitlines())
    kept = inside + os.fsencode(STORE) + b"/"
    return len({path for path in paths if path.startswith(inside) and not path.startswith(kept)})


def _started_from(process: Path, program: bytes, venv: Path) -> bool:
    """Tell whether the program's name, taken as the shell took it, is in the venv's bin and is what runs."""
    environ = dict(pair.partition(b"=")[::2] for pair in strings(process / "environ"))
    try:
        running = (process / "exe").stat()
        here = os.fsencode((process / "cwd").readlink())
    except OSError:
        return False
    if b"/" in program:
        # A process that has changed its folder since keeps the one it was started in as PWD.
        tried = [os.path.join(folder, program) for folder in (here, environ.get(b"PWD", here))]  # noqa: PTH118 - bytes
    else:
        tried = [os.path.join(folder, program) for folder in environ.get(b"PATH", b"").split(b":") if folder]  # noqa: PTH118
        tried = [path for path in tried if os.access(path, os.X_OK)][:1]
    return any(_lies_in(path, venv) and _same(path, running) for path in tried)


def _lies_in(path: bytes, venv: Path) -> bool:
    # Of the folder alone: the interpreter in it is a link that leads out of every venv.
    return os.path.realpath(os.path.dirname(path)) == os.fsencode(venv / "bin")  # noqa: PTH120 - bytes


def _same(path: bytes, running: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(path), running)  # noqa: PTH116 - bytes
    except OSError:
        return False


def _inside(process: Path, venv: Path) -> bool:
    try:
        here = (process / "cwd").readlink()
    except OSError:
        return False
    return here == venv or (venv in here.parents and venv / STORE not in (here, *here.parents))
