"""A stack about to be changed, copied afresh for each fault, and what must be true of it afterwards."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import Venv, install, make_venv, tree_state, uninstall
from tests.factories.make_wheel import make_wheel
from tests.factories.served import serve

State = dict[str, str]
_SHARED = "nvidia/nccl/lib/libnccl.so.2"
# Which lock it holds and since when: the one file of a restored venv that differs from run to run.
_NOTE = "envdoctor-restore.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A contaminated venv, one kept generation, files of the user's beside them, wheels and a warm cache elsewhere."""

    stack: Stack
    old: State
    """The venv as it is before the command."""
    kept: State
    """Generation 1."""
    mine: State
    """Everything beside the venv and its store."""

    @property
    def folder(self) -> Path:
        """The folder that holds all of it."""
        return self.stack.folder

    def again(self, folder: Path) -> "Scene":
        """Return a copy in another folder, which does not exist yet or is empty."""
        shutil.copytree(self.folder, folder, symlinks=True, dirs_exist_ok=True)
        environment = {**self.stack.environment, "HOME": str(folder / "home")}
        return replace(self, stack=replace(self.stack, folder=folder, environment=environment))

    def killed(self, command: Sequence[str], at: int, *, exchange: bool = True) -> tuple[int, list[str]]:
        """Run a command that is killed before its change number `at` (0: never); return its code and its changes.

        exchange: whether renameat2 is there; without it the swap takes two renames.
        """
        events = self.folder.with_name(self.folder.name + ".events")
        events.unlink(missing_ok=True)
        watched = {"kill_at": at, "events": str(events), "exchange": exchange}
        code, _, _ = serve(command, self.stack.environment, self.folder, watch=watched)
        return code, events.read_text().splitlines()

    def venv(self) -> State:
        """Return the venv's state; empty when it is missing."""
        return state(self.stack.venv)

    def everywhere(self) -> list[State]:
        """Return the state of every venv there is: the one in place, the kept ones, those being moved."""
        folders = [path for name in ("generations", "builds") for path in (self.stack.store / name).glob("*")]
        return [state(path) for path in (self.stack.venv, *folders)]

    def others(self) -> State:
        """Return the state of what no command may touch."""
        return _others(self.folder)

    def settled(self) -> None:
        """Fail unless nothing is left under way: no journal, no build, and each generation is a whole venv."""
        assert not (self.stack.store / "journal.json").exists()
        builds = self.stack.store / "builds"
        assert not builds.exists() or list(builds.iterdir()) == []
        for path in (self.stack.store / "generations").glob("*"):
            assert (path / "pyvenv.cfg").is_file()
            assert (path / "bin" / "python").exists()


def state(venv: Path) -> State:
    """Return a venv's files, all but the note of when it was restored."""
    return {path: told for path, told in tree_state(venv).items() if path != _NOTE}


def _others(folder: Path) -> State:
    found = {}
    for path in folder.iterdir():
        if path.name in ("venv", ".envdoctor", "home"):
            continue
        found |= {f"{path.name}/{inner}": told for inner, told in tree_state(path).items()} if path.is_dir() else {}
    return found


def make_scene(root: Path) -> Scene:
    """Make a scene under `root`: torch and an NCCL whose library another CUDA major's wheel took with it."""
    owner = make_wheel(root / "sources" / "wheels", "nvidia-nccl-cu12", "2.1", files={_SHARED: "12"})
    other = make_wheel(root / "other", "nvidia-nccl-cu13", "2.1", files={_SHARED: "13"})
    stack = make_stack(root / "sources", owner)
    folder = root / "scene"
    folder.mkdir()
    for name in ("profiles", "lockfiles", "home"):
        (root / "sources" / name).rename(folder / name)
    stack = replace(stack, folder=folder, environment={**stack.environment, "HOME": str(folder / "home")})
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine")
    _make_small(make_venv(stack.store / "generations" / "0001", cache=root / "cache"))
    done = stack.restore()
    assert done.code == 0, done.err
    venv = _make_small(Venv(prefix=stack.venv))
    install(venv, other, cache=root / "cache")
    uninstall(venv, "nvidia-nccl-cu13", cache=root / "cache")
    (venv.prefix / "share").mkdir()
    (venv.prefix / "share" / "results.csv").write_text("mine too")
    return Scene(
        stack=stack, old=state(venv.prefix), kept=state(stack.store / "generations" / "0001"), mine=_others(folder)
    )


def _make_small(venv: Venv) -> Venv:
    # Every file is one more point at which a removal can be killed, and no two of these differ in kind.
    for path in venv.prefix.glob("bin/*activate*"):
        path.unlink()
    return venv


def workers() -> int:
    """Return how many faults to try at once."""
    return min(4, os.cpu_count() or 1)
