"""Backups of a venv, on plain folders: listing, choosing, pruning, what they take, what was found in them."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pytest

from envdoctor.app.generations import Prune
from envdoctor.errors import RestoreError, UsageError
from envdoctor.facts.host import Host
from envdoctor.model.events import Event
from envdoctor.model.frozen import replace
from envdoctor.report.commands.prune import text
from envdoctor.report.style import Style
from envdoctor.swap import verdicts
from envdoctor.swap.generations import PrunePlan, Spared, chosen, listed, plan_prune, prune, roll_back
from envdoctor.swap.permissions import carry_over
from envdoctor.swap.shown import ShownVenv
from envdoctor.swap.space import scan, space
from envdoctor.swap.store import BackupStore
from envdoctor.swap.verdicts import KeptError, KeptVerdict
from tests.factories.make_reading import bare_host

SITE = "lib/python3.11/site-packages"
BROKEN = KeptVerdict(errors=(KeptError(code="ED201", title="gone"),), could_not_tell=("ED302",))


def make_backup(path: Path, version: str) -> Path:
    metadata = path / SITE / f"torch-{version}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    (metadata / "RECORD").write_text(f"torch-{version}.dist-info/METADATA,,\ntorch-{version}.dist-info/RECORD,,\n")
    (path / "bin").mkdir()
    (path / "bin/python").symlink_to("/usr/bin/env")
    (path / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.11.7\n")
    (path / "envdoctor-restore.json").write_text(f'{{"profile": "p{version}", "restored_at": "then"}}')
    return path


@dataclass(frozen=True)
class Scene:
    """A venv with three backups, and a machine."""

    store: BackupStore
    host: Host

    def contents(self) -> list[str]:
        """Return torch's version in each backup, newest first."""
        return [item.torch for item in listed(self.store)]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    make_backup(tmp_path / "venv", "9.0")
    store = BackupStore.of(tmp_path / "venv")
    for number in (1, 2, 10):
        make_backup(store.generation(number), f"{number}.0")
    return Scene(store=store, host=bare_host(tmp_path / "home"))


def ignore(event: Event) -> None:
    del event


def test_backups_are_listed_newest_first_with_what_they_are(scene: Scene) -> None:
    (scene.store.generations / "notes").mkdir()
    (scene.store.generations / "0011").symlink_to("0010")
    found = listed(scene.store)
    assert [(item.number, item.profile, item.python, item.packages, item.torch, item.made_at) for item in found] == [
        (10, "p10.0", "3.11.7", 1, "10.0", "then"),
        (2, "p2.0", "3.11.7", 1, "2.0", "then"),
        (1, "p1.0", "3.11.7", 1, "1.0", "then"),
    ]
    assert [Path(item.path).name for item in found] == ["0010", "0002", "0001"]
    assert scene.store.next_generation().name == "0012"


def test_the_newest_is_chosen_unless_one_is_named(scene: Scene) -> None:
    assert chosen(scene.store, None).name == "0010"
    assert chosen(scene.store, 2).name == "0002"
    with pytest.raises(UsageError) as error:
        chosen(scene.store, 3)
    assert (error.value.message, error.value.hint) == (
        f"there is no backup 3 of {scene.store.target}",
        f"`envdoctor history --venv {scene.store.target}` lists what is kept",
    )


def test_a_backup_without_its_interpreter_is_not_chosen(scene: Scene) -> None:
    python = scene.store.generation(10) / "bin/python"
    python.unlink()
    python.symlink_to("/nowhere/python3.11")
    with pytest.raises(RestoreError, match="backup 10 cannot run: its interpreter /nowhere/python3.11 is gone"):
        chosen(scene.store, None)


def test_there_is_nothing_to_choose_from(tmp_path: Path) -> None:
    make_backup(tmp_path / "venv", "1.0")
    with pytest.raises(UsageError, match="no backup of .*venv is kept, so there is nothing to go back to"):
        chosen(BackupStore.of(tmp_path / "venv"), None)


def test_a_rollback_exchanges_and_the_venv_before_it_is_the_newest_backup(scene: Scene) -> None:
    shown = next(item for item in listed(scene.store) if item.number == 2)
    done = roll_back(scene.store, shown, ignore, BROKEN, shown=ShownVenv.of(scene.store))
    assert (done.number, done.kept, done.recovered) == (2, scene.store.generation(11), ())
    assert (scene.store.target / "envdoctor-restore.json").read_text() == '{"profile": "p2.0", "restored_at": "then"}'
    assert scene.contents() == ["9.0", "10.0", "1.0"]
    assert [item.verdict for item in listed(scene.store)] == [BROKEN, None, None]
    assert not scene.store.journal.exists()


def numbers(plan: PrunePlan) -> tuple[list[int], list[int], list[int]]:
    groups = (plan.removed, plan.kept, [item.generation for item in plan.spared])
    removed, kept, spared = ([item.number for item in group] for group in groups)
    return removed, kept, spared


def test_prune_keeps_the_newest_and_removes_the_oldest_first(scene: Scene) -> None:
    plan = plan_prune(scene.store, 1, [scene.host])
    assert numbers(plan) == ([1, 2], [10], [])
    assert plan.space.bytes == plan.space.frees > 0
    assert prune(scene.store, plan.removed, ignore, shown=ShownVenv.of(scene.store)) == ()
    assert scene.contents() == ["10.0"]
    assert list(scene.store.builds.iterdir()) == []


def test_prune_of_the_broken_ones_alone(scene: Scene) -> None:
    verdicts.write(scene.store, scene.store.generation(2), BROKEN)
    verdicts.write(scene.store, scene.store.generation(1), KeptVerdict())
    assert numbers(plan_prune(scene.store, 0, [scene.host], broken=True)) == ([2], [10, 1], [])


def test_prune_spares_a_users_files_and_a_compile_cache(scene: Scene) -> None:
    for name in ("a", "b", "c", "d", "e"):
        (scene.store.generation(1) / name).write_text("mine")
    (scene.store.generation(2) / "scratch/torchinductor_me").mkdir(parents=True)
    plan = plan_prune(scene.store, 0, [scene.host])
    assert numbers(plan) == ([10], [], [2, 1])
    assert [item.holds for item in plan.spared] == [
        f"a compile cache, {scene.store.generation(2)}/scratch/torchinductor_me",
        "files that no RECORD lists, a, b, c, d and 1 more",
    ]
    assert numbers(plan_prune(scene.store, 0, [scene.host], with_unrecorded=True)) == ([1, 10], [], [2])
    assert Spared(generation=listed(scene.store)[0], unrecorded=("a", "b", "c", "d")).holds == (
        "files that no RECORD lists, a, b, c, d"
    )


def test_a_backup_that_is_not_the_one_that_was_shown_stays(scene: Scene) -> None:
    plan = plan_prune(scene.store, 2, [scene.host])
    (scene.store.generation(1) / "late").write_text("mine")
    with pytest.raises(RestoreError, match="backup 1 has gained a file since it was shown, late; it is left alone"):
        prune(scene.store, plan.removed, ignore, shown=ShownVenv.of(scene.store))
    scene.store.generation(1).rename(scene.store.generations / "aside")
    make_backup(scene.store.generation(1), "7.0")
    with pytest.raises(RestoreError, match="backup 1 is another venv than the one that was shown; it is left alone"):
        prune(scene.store, plan.removed, ignore, shown=ShownVenv.of(scene.store))
    assert scene.contents() == ["10.0", "2.0", "7.0"]


def test_a_verdict_belongs_to_the_venv_it_was_found_in(scene: Scene) -> None:
    verdicts.write(scene.store, scene.store.generation(1), BROKEN)
    verdicts.write(scene.store, scene.store.generation(2), KeptVerdict())
    assert verdicts.read(scene.store) == {1: BROKEN, 2: KeptVerdict()}
    config = scene.store.generation(1) / "pyvenv.cfg"
    config.rename(config.with_name("old"))
    config.write_text("another venv took the number\n")
    assert verdicts.read(scene.store) == {2: KeptVerdict()}
    verdicts.write(scene.store, scene.store.generation(2))
    assert (verdicts.read(scene.store), scene.store.verdicts.exists()) == ({}, False)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"1": 1}', '{"x": {}}', "\xff", '{"1": {"inode": 1}}'])
def test_a_damaged_file_of_verdicts_says_nothing(scene: Scene, text: str) -> None:
    scene.store.root.mkdir(parents=True, exist_ok=True)
    scene.store.verdicts.write_bytes(text.encode("latin-1"))
    assert verdicts.read(scene.store) == {}


def test_space_counts_an_inode_once_and_says_what_a_removal_frees(tmp_path: Path) -> None:
    for name in ("cache", "one/.envdoctor", "two"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "cache/shared").write_bytes(b"x" * 40_000)
    (tmp_path / "one/own").write_bytes(b"x" * 20_000)
    (tmp_path / "one/.envdoctor/kept").write_bytes(b"x" * 80_000)
    for name in ("one/shared", "one/again", "two/shared"):
        os.link(tmp_path / "cache/shared", tmp_path / name)
    os.link(tmp_path / "one/own", tmp_path / "two/own")
    blocks = {name: (tmp_path / name).stat().st_blocks * 512 for name in ("cache/shared", "one/own")}
    one, two = scan(tmp_path / "one"), scan(tmp_path / "two")
    assert (space([one]).bytes, space([one]).frees) == (sum(blocks.values()), 0)
    assert (space([one, two]).frees, space([one, two]).shared) == (blocks["one/own"], blocks["cache/shared"])
    (tmp_path / "cache/shared").unlink()
    assert space([scan(tmp_path / "one"), scan(tmp_path / "two")]).shared == 0
    assert space([scan(tmp_path / "nothing")]).bytes == 0


def test_those_who_could_use_the_old_venv_can_use_the_new_one(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new / "bin"):
        folder.mkdir(parents=True)
    for name, mode in {"bin/tool": 0o700, "lib": 0o600, "both": 0o600}.items():
        (new / name).write_text(name)
        (new / name).chmod(mode)
    os.link(new / "both", tmp_path / "cache")
    (new / "link").symlink_to("lib")
    new.chmod(0o700)
    (new / "bin").chmod(0o700)
    old.chmod(0o2775)
    carry_over(old, new)
    names = (".", "bin", "bin/tool", "lib", "both", "../cache")
    assert {name: oct(stat.S_IMODE((new / name).stat().st_mode)) for name in names} == {
        ".": "0o2775",
        "bin": "0o2775",
        "bin/tool": "0o755",
        "lib": "0o644",
        "both": "0o644",
        "../cache": "0o600",
    }
    assert ((new / "both").read_text(), (new / "both").stat().st_nlink) == ("both", 1)


def test_a_narrower_old_venv_closes_the_top_alone(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir(mode=0o700)
    (new / "bin").mkdir(parents=True)
    (new / "bin").chmod(0o755)
    carry_over(old, new)
    assert [oct(stat.S_IMODE(path.stat().st_mode)) for path in (new, new / "bin")] == ["0o700", "0o755"]
    carry_over(tmp_path / "deleted", new)
    assert oct(stat.S_IMODE(new.stat().st_mode)) == "0o700"


def test_what_could_not_be_looked_at_is_said_where_something_goes(scene: Scene) -> None:
    shown = {}
    for number in (0, 1, 2):
        plan = replace(plan_prune(scene.store, 1, [scene.host]), unseen=number)
        shown[number] = text(Prune(status="planned", target="/v", plan=plan, keep=1, broken=False), Style())
    told = "1 process could not be looked at: one that uses a backup would not be named\n"
    assert [told in shown[0], told in shown[1]] == [False, True]
    assert shown[2].replace("2 processes", "1 process") == shown[1] != shown[0]
