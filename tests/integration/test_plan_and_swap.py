"""Somebody replaces a part of what was shown, between the plan and the swap: nothing else is changed.

The question is the stop: what answers it makes the change first.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from envdoctor.api import _Silent
from envdoctor.app import bisect, fix, generations, repair, restore, trying
from envdoctor.app.check import CheckOptions
from envdoctor.doctor.workspace import Workspace
from envdoctor.errors import EnvdoctorError
from envdoctor.facts.host import Host
from envdoctor.model.events import Listener
from envdoctor.model.frozen import replace
from envdoctor.trial.attempt import TryRequest
from tests.factories.bisected import make_ends
from tests.factories.make_stack import Stack, make_stack
from tests.factories.make_venv import install, make_venv, rewrite, tree_state
from tests.factories.make_wheel import make_wheel

AGAIN = "run it again: it plans for what is there now"
INSTALL = ("uv", "pip", "install", "--offline", "--no-index", "--find-links", "wheels", "more")
ELSE = "and nothing else is changed than what was shown"


class Attacker(_Silent):
    """Answers yes, once the change is made."""

    def __init__(self, attack: Callable[[], object]) -> None:
        """Keep the change."""
        self.attack = attack
        self.asked = 0

    def needs_answer(self, hint: str) -> None:
        """Somebody does answer."""

    def agreed(self, question: str) -> bool:
        """Make the change, and agree."""
        del question
        self.asked += 1
        self.attack()
        return True


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A restored and then damaged venv, one backup of it, and somebody else's venv."""

    stack: Stack

    @property
    def other(self) -> Path:
        """A folder that holds another venv of the same name."""
        return self.stack.folder / "other"

    def workspace(self, *, profile: bool = False) -> Workspace:
        """Return the venv's, closed off from the user's configuration."""
        folder = self.stack.folder
        host = replace(
            Host.current(), environ=self.stack.environment, cwd=folder, home=Path(self.stack.environment["HOME"])
        )
        return Workspace.open("venv", str(folder / "profiles/small.toml") if profile else "", host)

    def run(self, command: str, attack: Callable[[], object]) -> str:
        """Run a command that is attacked at its question; return what it refuses with, empty where it does not."""
        dialog, said = Attacker(attack), ""
        try:
            COMMANDS[command](self, dialog)
        except EnvdoctorError as error:
            said = f"{error.message}\n{error.hint}".replace(str(self.stack.folder), "FOLDER")
        assert dialog.asked == 1, said
        return said

    def state(self) -> dict[str, dict[str, str]]:
        """Return every venv that there is, the other's folder included."""
        folder = self.stack.folder
        there = (folder / "venv", folder / "other", self.stack.store / "generations", folder / "elsewhere")
        return {str(path): tree_state(path) for path in there if path.exists()}


def _restore(scene: Scene, dialog: Attacker) -> None:
    restore.restore(scene.workspace(profile=True), restore.RestoreOptions(force=True, offline=True), dialog)


def _repair(scene: Scene, dialog: Attacker) -> None:
    repair.repair(scene.workspace(profile=True), repair.RepairOptions(offline=True), dialog)


def _rollback(scene: Scene, dialog: Attacker) -> None:
    generations.rollback(scene.workspace(), None, generations.RollbackOptions(), dialog)


def _prune(scene: Scene, dialog: Attacker) -> None:
    generations.prune(scene.workspace(), 0, dialog, broken=False, with_unrecorded=True, dry_run=False, yes=False)


def _fix(scene: Scene, dialog: Attacker) -> None:
    fix.fix(scene.workspace(), CheckOptions(), fix.FixOptions(), dialog)


def _try(scene: Scene, dialog: Attacker) -> None:
    request = TryRequest(target=scene.stack.venv, command=INSTALL)
    trying.trying(scene.workspace(), request, trying.TryOptions(), dialog)


COMMANDS: dict[str, Callable[[Scene, Attacker], None]] = {
    "restore": _restore,
    "repair": _repair,
    "rollback": _rollback,
    "prune": _prune,
    "fix": _fix,
    "try": _try,
}
SWAPS = [name for name in COMMANDS if name != "prune"]
UNLOCKED = [name for name in COMMANDS if name != "try"]
"""Commands that take the store's lock after the question; `try` asks while it holds it."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    folder = tmp_path_factory.mktemp("stack")
    stack = make_stack(folder)
    make_wheel(folder / "wheels", "more", "1.0")
    make_venv(stack.venv, make_wheel(folder / "old", "plain", "2.0"))
    assert stack.restore().code == 0
    make_venv(folder / "other/venv", make_wheel(folder / "theirs", "thesis", "1.0", files={"thesis.py": "precious"}))
    return stack


@pytest.fixture
def scene(made: Stack, tmp_path: Path) -> Scene:
    """Put every part in its place again."""
    kept = tmp_path / "kept"
    names = ("venv", "other", ".envdoctor", "profiles", "lockfiles")
    for name in names:
        shutil.copytree(made.folder / name, kept / name, symlinks=True)
    library = next(made.venv.glob("lib/python3*/site-packages")) / "some_tool.py"
    rewrite(library, b"")
    yield Scene(stack=made)  # type: ignore[misc]
    for name in (*names, "elsewhere", "moved"):
        path = made.folder / name
        path.unlink() if path.is_symlink() else shutil.rmtree(path, ignore_errors=True)
    for name in names:
        (kept / name).rename(made.folder / name)


def _by_another(scene: Scene) -> None:
    scene.stack.venv.rename(scene.stack.folder / "elsewhere")
    (scene.other / "venv").rename(scene.stack.venv)


def _by_a_link(scene: Scene) -> None:
    scene.stack.venv.rename(scene.stack.folder / "elsewhere")
    scene.stack.venv.symlink_to(scene.other / "venv")


def _its_settings(scene: Scene) -> None:
    config = scene.stack.venv / "pyvenv.cfg"
    config.unlink()
    config.symlink_to(scene.other / "venv/pyvenv.cfg")


def _an_install(scene: Scene) -> None:
    site = next(scene.stack.venv.glob("lib/python3*/site-packages"))
    (site / "late-1.0.dist-info").mkdir()


ATTACKS: dict[str, tuple[Callable[[Scene], None], str]] = {
    "another": (_by_another, f"FOLDER/venv is another folder now, not the venv that the plan was made of, {ELSE}"),
    "a link": (_by_a_link, f"FOLDER/venv is a link now, not the venv that the plan was made of, {ELSE}"),
    "settings": (_its_settings, f"FOLDER/venv/pyvenv.cfg was changed since the plan was made, {ELSE}"),
    "an install": (
        _an_install,
        f"packages of FOLDER/venv were changed since the plan was made: late-1.0.dist-info, {ELSE}",
    ),
}  # fmt: skip


# Before the store's lock is taken, and under it: every attack there, and one for each of the others.
@pytest.mark.parametrize(
    ("command", "attack"),
    [(name, attack) for name in SWAPS for attack in ATTACKS if name in ("restore", "try") or attack == "another"],
)
def test_another_venv_than_the_one_that_was_shown(scene: Scene, command: str, attack: str) -> None:
    change, said = ATTACKS[attack]
    after: list[object] = []

    def strike() -> None:
        change(scene)
        after.append(scene.state())

    refused = scene.run(command, strike)
    assert refused.startswith(("step 1 of 1 failed: " if command == "fix" else "") + said), refused
    assert refused.endswith(f"\n{AGAIN}")
    assert [scene.state()] == after


@pytest.mark.parametrize("command", COMMANDS)
def test_the_folder_above_becomes_a_link(scene: Scene, command: str) -> None:
    """Every path leads elsewhere then: to a venv of the same name that nobody spoke of, where no store is made."""
    folder, elsewhere = scene.stack.folder, scene.stack.folder.with_name("moved-stack")
    other = scene.other.rename(folder.with_name("their-folder"))
    before = tree_state(other)

    def strike() -> None:
        folder.rename(elsewhere)
        folder.symlink_to(other)

    try:
        refused = scene.run(command, strike)
        assert f"FOLDER is another folder than when the plan was made, {ELSE}\n" in refused + "\n"
        assert tree_state(other) == before
    finally:
        folder.unlink()
        elsewhere.rename(folder)
        other.rename(scene.other)


@pytest.mark.parametrize(
    ("command", "part"),
    [("restore", "."), ("restore", "builds"), *((name, "generations") for name in COMMANDS if name != "restore")],
)
def test_a_part_of_the_store_becomes_a_link(scene: Scene, command: str, part: str) -> None:
    before = tree_state(scene.other), tree_state(scene.stack.venv)
    path = scene.stack.store / part if part != "." else scene.stack.store

    def strike() -> None:
        path.rename(scene.stack.folder / "moved")
        path.symlink_to(scene.other)

    refused = scene.run(command, strike)
    named = "FOLDER/.envdoctor/venv" + (f"/{part}" if part != "." else "")
    assert f"{named} is not a real folder, so nothing in it is touched\n" in refused
    assert (tree_state(scene.other), tree_state(scene.stack.venv)) == before


@pytest.mark.parametrize("command", SWAPS)
def test_a_file_is_changed_while_the_question_is_open(scene: Scene, command: str) -> None:
    mine = next(scene.stack.venv.glob("lib/python3*/site-packages")) / "torch/mine.py"
    after: list[object] = []

    def strike() -> None:
        mine.write_text("X = 1")
        after.append(scene.state())

    refused = scene.run(command, strike).splitlines()
    inner = mine.relative_to(scene.stack.venv)
    assert refused[0].removeprefix("step 1 of 1 failed: ") == f"1 file of FOLDER/venv changed meanwhile: {inner}"
    assert refused[-1] == "nothing was swapped; run it again once nothing else changes that venv"
    assert [scene.state()] == after


@pytest.mark.parametrize("command", ["restore", "repair", "try"])
def test_bytecode_and_compile_caches_may_be_written(
    scene: Scene, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    venv = scene.stack.venv
    monkeypatch.setitem(scene.stack.environment, "TORCHINDUCTOR_CACHE_DIR", f"{venv}/lib/cache/inductor")
    site = next(venv.glob("lib/python3*/site-packages"))

    def strike() -> None:
        for folder in (site / "torch/__pycache__", venv / ".triton", venv / "lib/cache/inductor/ab"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "written").write_text("1")

    (venv / "lib/cache/inductor").mkdir(parents=True)
    before = venv.stat().st_ino
    assert scene.run(command, strike) == ""
    assert venv.stat().st_ino != before


class Late(_Silent):
    """Makes the change once the step has begun, when what was shown has been compared."""

    def __init__(self, attack: Callable[[], object]) -> None:
        """Keep the change."""
        self.attack = attack

    @contextmanager
    def listening(self, *, plain: bool = False) -> Iterator[Listener]:
        """Make the change."""
        self.attack()
        with super().listening(plain=plain) as listen:
            yield listen


def test_a_step_does_no_more_than_was_shown(scene: Scene) -> None:
    late = next(scene.stack.venv.glob("lib/python3*/site-packages")) / "late-1.0.dist-info"

    def strike() -> None:
        late.mkdir(exist_ok=True)
        (late / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1.0\n")

    with pytest.raises(EnvdoctorError) as caught:
        fix.fix(scene.workspace(profile=True), CheckOptions(), fix.FixOptions(yes=True), Late(strike))
    assert caught.value.message.splitlines()[0] == (
        "step 1 of 1 failed: it would do now what was not shown: remove late"
    )
    assert caught.value.hint == "run `envdoctor check --fix` again: it plans for what is there now"
    assert late.is_dir()


@pytest.mark.parametrize("command", ["rollback", "prune"])
def test_a_backup_becomes_another_venv(scene: Scene, command: str) -> None:
    kept = scene.stack.store / "generations/0001"

    def strike() -> None:
        kept.rename(scene.stack.folder / "moved")
        (scene.other / "venv").rename(kept)

    refused = scene.run(command, strike)
    assert refused == (
        "backup 1 is another venv than the one that was shown; it is left alone\n"
        "`envdoctor history --venv FOLDER/venv` lists what is kept"
    )
    assert next(kept.glob("lib/python3*/site-packages/thesis.py")).read_text() == "precious"


def test_the_copy_of_a_try_becomes_a_link(scene: Scene) -> None:
    before = tree_state(scene.other), tree_state(scene.stack.venv)

    def strike() -> None:
        (copy,) = (path for path in (scene.stack.store / "builds").iterdir() if not path.name.endswith("-caches"))
        copy.rename(scene.stack.folder / "moved")
        copy.symlink_to(scene.other / "venv")

    refused = scene.run("try", strike)
    assert refused.startswith("FOLDER/.envdoctor/venv/builds/2")
    assert refused.endswith(
        " is not the copy that was made there: somebody replaced it\n"
        "nothing was swapped; see who else changes that folder, then run this again"
    )
    assert (tree_state(scene.other), tree_state(scene.stack.venv)) == before


def test_the_copy_of_a_try_becomes_somebodys_folder(scene: Scene) -> None:
    before, store = tree_state(scene.stack.venv), scene.stack.store

    def strike() -> None:
        (copy,) = (path for path in (store / "builds").iterdir() if not path.name.endswith("-caches"))
        copy.rename(scene.stack.folder / "moved")
        copy.mkdir()
        (copy / "thesis").write_text("precious")

    assert " is not the copy that was made there: somebody replaced it\n" in scene.run("try", strike)
    assert tree_state(scene.stack.venv) == before
    assert list((store / "builds").iterdir()) == []
    (left,) = store.glob("not-a-copy-*")
    scene.run("restore", lambda: None)
    assert (left / "thesis").read_text() == "precious"


@pytest.mark.parametrize("command", UNLOCKED)
def test_a_journal_appears(scene: Scene, command: str) -> None:
    """It names somebody's folder in the store's place, behind a link."""
    before = tree_state(scene.other), tree_state(scene.stack.venv)
    store = scene.stack.store
    build = store / "builds/planted"
    entry = {"phase": "filling", "profile": "", "build": str(build), "keep": str(store / "generations/0009")}

    def strike() -> None:
        build.parent.mkdir(exist_ok=True)
        build.symlink_to(scene.other / "venv")
        (store / "journal.json").write_text(json.dumps(entry))

    refused = scene.run(command, strike)
    assert refused.partition("\n")[0].removeprefix("step 1 of 1 failed: ") == (
        "FOLDER/.envdoctor/venv/journal.json names folders outside FOLDER/.envdoctor/venv, so it is not envdoctor's"
    )
    assert (tree_state(scene.other), tree_state(scene.stack.venv)) == before


def test_the_profile_and_its_lock_become_others(scene: Scene) -> None:
    """What was shown is done: both were read once."""

    def strike() -> None:
        (scene.stack.folder / "profiles/small.toml").write_text("name = 3")
        (scene.stack.folder / "lockfiles/small.txt").write_text("more==1.0\n")

    assert scene.run("restore", strike) == ""
    assert sorted(path.name for path in scene.stack.venv.glob("lib/python3*/site-packages/*.dist-info")) == [
        "plain-3.0.dist-info",
        "some_tool-1.2.dist-info",
        "torch-2.13.0+cpu.dist-info",
    ]


@pytest.mark.parametrize("command", UNLOCKED)
@pytest.mark.parametrize("name", ["lock", "journal.json"])
def test_nothing_is_written_through_a_file_of_the_store(scene: Scene, command: str, name: str) -> None:
    victim = scene.stack.folder / "elsewhere"
    victim.mkdir()
    (victim / "thesis.tex").write_text("precious")

    def strike() -> None:
        path = scene.stack.store / name
        path.unlink(missing_ok=True)
        path.symlink_to(victim / "thesis.tex")

    refused = scene.run(command, strike)
    assert f"FOLDER/.envdoctor/venv/{name}" in refused
    assert (victim / "thesis.tex").read_text() == "precious"


@pytest.mark.parametrize("attack", ["another", "folder"])
def test_the_bisected_venv_becomes_another(tmp_path: Path, attack: str) -> None:
    own = [make_wheel(tmp_path / "wheels", "part", version, files={"part.py": f"V = {version}\n"}) for version in "12"]
    ends = make_ends(tmp_path / "project", own[:1], own[1:])
    install(ends.good, make_wheel(tmp_path / "wheels", "same", "1.0"))
    ends.answer("good", "bad", "--", "python", "-c", "import part, sys; sys.exit(part.V - 1)")
    theirs = make_venv(tmp_path / "their-folder/bad", own[1])
    before = tree_state(theirs.prefix.parent)
    host = replace(Host.current(), environ={**os.environ, **ends.settings}, cwd=ends.root, home=tmp_path)

    def strike() -> None:
        if attack == "another":
            ends.bad.prefix.rename(tmp_path / "aside")
            shutil.copytree(theirs.prefix, ends.bad.prefix, symlinks=True)
        else:
            ends.root.rename(tmp_path / "aside")
            ends.root.symlink_to(theirs.prefix.parent)

    with pytest.raises(EnvdoctorError) as caught:
        bisect.undo(Workspace.open("bad", host=host), Attacker(strike), yes=False)
    said = {
        "another": f"{ends.bad.prefix} is another folder now, not the venv that the plan was made of, {ELSE}",
        "folder": f"{ends.root} is another folder than when the plan was made, {ELSE}",
    }
    assert caught.value.message == said[attack]
    assert tree_state(theirs.prefix.parent) == before
