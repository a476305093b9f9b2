"""Repairs of contaminated venvs: the fewest reinstalls, on a copy; a refusal where the owner is not known."""

import json
import os
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from envdoctor.errors import RestoreError
from envdoctor.stack.folders_in_the_way import remove_from_copy
from tests.factories.make_index import make_index
from tests.factories.make_scene import Scene, make_scene, state, workers
from tests.factories.make_stack import Stack, make_stack, make_torch
from tests.factories.make_venv import Venv, install, make_venv, rewrite, tree_state, uninstall
from tests.factories.make_wheel import make_wheel

NCCL = "nvidia/nccl/lib/libnccl.so.2"
REPAIR = ("repair", "--venv", "venv", "--yes")
WITH_PROFILE = (*REPAIR, "--profile", "small")


@pytest.fixture
def stack(tmp_path: Path) -> Stack:
    """Restore a stack with two owners of NVIDIA's folders; the other major's wheel is in `other`."""
    init = {"nvidia/__init__.py": ""}
    owners = (
        make_wheel(tmp_path / "wheels", "nvidia-nccl-cu12", "2.1", files={NCCL: "12", **init}),
        make_wheel(
            tmp_path / "wheels", "nvidia-cudnn-cu12", "9.1", files={"nvidia/cudnn/lib/libcudnn.so.9": "c", **init}
        ),
    )
    make_wheel(tmp_path / "other", "nvidia-nccl-cu13", "2.1", files={NCCL: "13", **init})
    made = make_stack(tmp_path, *owners)
    answer = made.restore()
    assert answer.code == 0, answer.err
    return made


def _contaminate(stack: Stack) -> Venv:
    venv = Venv(prefix=stack.venv)
    install(venv, *(stack.folder / "other").glob("nvidia_nccl_cu13*"), cache=stack.folder / "other-cache")
    return venv


def _lost(stack: Stack) -> None:
    uninstall(_contaminate(stack), "nvidia-nccl-cu13")


def _overwritten(stack: Stack) -> None:
    _contaminate(stack)


def _at_risk(stack: Stack) -> None:
    venv = _contaminate(stack)
    rewrite(venv.site_packages / NCCL, "12")


def _altered(stack: Stack) -> None:
    rewrite(Venv(prefix=stack.venv).site_packages / NCCL, "21")


def _no_record(stack: Stack) -> None:
    (Venv(prefix=stack.venv).dist_info("nvidia-nccl-cu12") / "RECORD").unlink()


def _no_metadata(stack: Stack) -> None:
    (Venv(prefix=stack.venv).dist_info("nvidia-nccl-cu12") / "METADATA").unlink()


REMOVED = ["nvidia-nccl-cu13"]


@pytest.mark.parametrize(
    ("break_it", "removed", "profile"),
    [
        # Which owner is meant, the lock tells here; without it there is nobody to tell in this stack.
        (_overwritten, REMOVED, True),
        (_at_risk, REMOVED, True),
        *(
            (break_it, [], profile)
            for break_it in (_lost, _altered, _no_record, _no_metadata)
            for profile in (True, False)
        ),
    ],
)
def test_the_smallest_set_that_repairs(stack: Stack, break_it: "object", removed: list[str], profile: bool) -> None:  # noqa: FBT001
    whole = state(stack.venv)
    break_it(stack)  # type: ignore[operator]
    broken = tree_state(stack.venv)
    cache = tree_state(stack.cache)
    answer = stack.run(*(WITH_PROFILE if profile else REPAIR), "--json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    changes = document["plan"]["changes"]
    assert document["status"] == "repaired"
    assert [item["name"] for item in changes["removals"]] == removed
    assert [item["name"] for item in changes["reinstalls"]] == ["nvidia-nccl-cu12"]
    assert _content(state(stack.venv)) == _content(whole)
    kept = Path(document["result"]["kept"].replace("FOLDER", str(stack.folder)))
    assert tree_state(kept) == broken
    assert {path: told for path, told in tree_state(stack.cache).items() if path in cache and "wheels-v" in path} == {
        path: told for path, told in cache.items() if "wheels-v" in path
    }
    again = stack.run(*WITH_PROFILE)
    assert again.code == 0
    assert again.out.startswith("FOLDER/venv needs no repair: 5 packages, ")


def _content(found: dict[str, str]) -> dict[str, str]:
    # uv notes beside a distribution how it was asked for; RECORD lists that note.
    return {path: told for path, told in found.items() if not path.endswith(("REQUESTED", "RECORD", "uv_cache.json"))}


def test_what_it_says(stack: Stack) -> None:
    _overwritten(stack)
    planned = stack.run("repair", "--venv", "venv", "-p", "small", "--dry-run")
    assert planned.out == (
        "envdoctor repair  FOLDER/venv   profile small\n"
        "\n"
        "  remove     nvidia-nccl-cu13 2.1: nvidia-nccl-cu12 is the wanted owner of their shared files "
        "(pinned by the lock)\n"
        "  reinstall  nvidia-nccl-cu12 2.1: libnccl.so.2 is not as recorded; 1 more go with what is removed\n"
        "\n"
        f"  1 of 5 packages installed again, {_sizes(planned.out)}\n"
        "  on a linked copy, which is verified, examined, and then swapped in\n"
        "  the venv as it is now is kept at FOLDER/.envdoctor/venv/generations/0001\n"
    )
    done = stack.run(*WITH_PROFILE)
    files = done.out.split("installed again; ")[1].split(" verified")[0]
    assert done.out == (
        f"repaired FOLDER/venv: 1 package removed, 1 installed again; {files} verified by sha256\n"
        "the old venv is kept at FOLDER/.envdoctor/venv/generations/0001; no process that this user can see uses it\n"
        "to go back: envdoctor rollback --venv FOLDER/venv\n"
    )


def _sizes(text: str) -> str:
    return text.split("installed again, ")[1].splitlines()[0]


def test_what_the_lock_does_not_have_stays(stack: Stack) -> None:
    extra = make_wheel(stack.folder / "other", "mine", "1.0")
    install(Venv(prefix=stack.venv), extra, cache=stack.folder / "other-cache")
    _lost(stack)
    answer = stack.run(*WITH_PROFILE)
    assert answer.code == 0, answer.err
    assert Venv(prefix=stack.venv).dist_info("mine").is_dir()


def test_a_missing_and_a_drifted_package_are_put_back(stack: Stack) -> None:
    venv = Venv(prefix=stack.venv)
    uninstall(venv, "some-tool")
    install(venv, make_wheel(stack.folder / "other", "plain", "2.0"), cache=stack.folder / "other-cache")
    answer = stack.run(*WITH_PROFILE)
    assert answer.code == 0, answer.err
    assert "reinstall  plain 2.0 -> 3.0: is 2.0" in answer.err
    assert "reinstall  some-tool 1.2: is missing" in answer.err
    # The script was written by a uv that saw the copy; it must run from where the copy went.
    assert subprocess.run([stack.venv / "bin/hello"], capture_output=True, check=True).stdout == b"hello\n"


def test_torchs_own_requirement_tells_which_owner_is_meant(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    owner = make_wheel(tmp_path / "wheels", "nvidia-nccl-cu12", "2.1", files={NCCL: "12"})
    other = make_wheel(tmp_path / "other", "nvidia-nccl-cu13", "2.1", files={NCCL: "13"})
    torch = make_wheel(tmp_path / "wheels", "torch", "2.13.0", requires=["nvidia-nccl-cu12==2.1"])
    assert stack.restore().code == 0
    venv = Venv(prefix=stack.venv)
    install(venv, owner, torch, cache=tmp_path / "other-cache")
    install(venv, other, cache=tmp_path / "other-cache")
    answer = stack.run(*REPAIR)
    assert answer.code == 0, answer.err
    assert (venv.site_packages / NCCL).read_text() == "12"


@pytest.mark.parametrize("profile", [False, True], ids=["no profile", "a profile without either"])
def test_it_refuses_when_a_reinstall_would_choose_the_owner(stack: Stack, profile: bool) -> None:  # noqa: FBT001
    venv = Venv(prefix=stack.venv)
    for name in ("one", "two"):
        wheel = make_wheel(stack.folder / "other", name, "1.0", files={"shared/data.so": name, f"{name}/own.py": ""})
        install(venv, wheel, cache=stack.folder / "other-cache")
    (venv.site_packages / "one/own.py").unlink()
    before = tree_state(stack.folder / "venv")
    answer = stack.run(*(WITH_PROFILE if profile else REPAIR))
    assert (answer.code, answer.out) == (4, "")
    assert answer.err.rpartition("error: ")[2] == (
        "one and two both own shared/data.so with different contents, and it is not known which one is wanted\n\n"
        "hint: uninstall the one that is not wanted, then run `envdoctor repair` again"
        + (
            "\n"
            if profile
            else ", or name the profile that pins the wanted one (`envdoctor repair --profile PROFILE`)\n"
        )
    )
    assert tree_state(stack.venv) == before
    assert not (stack.store / "journal.json").exists()


def test_an_editable_install_that_is_damaged_is_named(stack: Stack) -> None:
    venv = Venv(prefix=stack.venv)
    wheel = make_wheel(stack.folder / "other", "mine", "1.0")
    install(venv, wheel, cache=stack.folder / "other-cache")
    info = venv.dist_info("mine")
    (info / "direct_url.json").write_text(json.dumps({"url": "file:///srv/mine", "dir_info": {"editable": True}}))
    (venv.site_packages / "mine" / "__init__.py").unlink()
    answer = stack.run(*WITH_PROFILE)
    assert answer.code == 4
    assert answer.err.endswith(
        "error: mine 1.0 (editable from file:///srv/mine) is damaged, and no index has it\n\nhint: install it again "
        "yourself: `uv pip install --python FOLDER/venv/bin/python --no-index --find-links FOLDER/wheels "
        "--no-deps --reinstall-package mine --editable /srv/mine`, then repair the rest\n"
    )


def test_it_says_when_a_restore_is_cheaper(stack: Stack) -> None:
    site = Venv(prefix=stack.venv).site_packages
    for path in [*site.glob("*/__init__.py"), *site.glob("nvidia/*/lib/*")]:
        path.unlink()
    (site / "some_tool.py").unlink()
    answer = stack.run("repair", "--venv", "venv", "-p", "small", "--dry-run")
    assert answer.out.endswith(
        "installed again, so a full restore is cheaper: `envdoctor restore --profile small --venv FOLDER/venv`\n"
    )


def test_one_big_package_is_told_by_its_bytes(tmp_path: Path) -> None:
    stack = make_stack(tmp_path, make_wheel(tmp_path / "wheels", "big", "1", files={"big/data": "x" * 100_000}))
    assert stack.restore().code == 0
    rewrite(Venv(prefix=stack.venv).site_packages / "big/data", "y")
    answer = stack.run("repair", "--venv", "venv", "-p", "small", "--dry-run")
    assert answer.out.endswith(
        "\n  more than half of its bytes are to be installed again, so a full restore is cheaper: "
        "`envdoctor restore --profile small --venv FOLDER/venv`\n"
    )


def test_what_repair_does_not_fix_is_named_with_its_fix(tmp_path: Path) -> None:
    stack = make_stack(tmp_path)
    needy = make_wheel(tmp_path / "wheels", "needy", "1", requires=["absent>=1"])
    make_venv(stack.venv, *stack.wheels, needy, cache=stack.cache)
    before = tree_state(stack.venv)
    answer = stack.run(*REPAIR)
    assert answer.code == 4, answer.err
    first, *rest = answer.out.splitlines()
    assert first.startswith("repair has nothing to put back in FOLDER/venv: 4 packages, ")
    assert first.endswith(" are as recorded")
    assert rest == [
        "",
        "repair does not fix ED406: absent is not installed; needy 1 requires absent>=1 (absent)",
        "  fix: install what is missing",
        "       uv pip install --python FOLDER/venv/bin/python 'absent>=1'",
    ]
    document = json.loads(stack.run(*REPAIR, "--json").out)
    assert (document["status"], len(document["remaining"])) == ("not repaired", 1)
    assert tree_state(stack.venv) == before


def test_a_wheel_that_is_nowhere_is_named_with_a_way_that_repair_knows(stack: Stack) -> None:
    (Venv(prefix=stack.venv).site_packages / NCCL).unlink()
    empty = stack.folder / "empty"
    empty.mkdir()
    elsewhere = {"UV_CACHE_DIR": str(empty / "cache"), "PIP_FIND_LINKS": str(empty)}
    answer = stack.run(*WITH_PROFILE, extra=elsewhere)
    assert answer.code == 4
    assert answer.err.endswith("put it into a folder, and run again with `UV_FIND_LINKS=FOLDER`\n"), answer.err
    answer = stack.run(*WITH_PROFILE, extra=elsewhere | {"UV_FIND_LINKS": str(stack.folder / "wheels")})
    assert answer.code == 0, answer.err


def test_files_changed_in_the_cache_are_refused(stack: Stack) -> None:
    edited = Venv(prefix=stack.venv).site_packages / NCCL
    with edited.open("r+b") as file:  # in place: uv's cache has it too
        file.write(b"21")
    before = tree_state(stack.venv)
    answer = stack.run(*WITH_PROFILE)
    assert answer.code == 4
    assert answer.err.rpartition("error: ")[2] == (
        f"the repaired copy is not what its RECORDs and the plan say: nvidia-nccl-cu12: {NCCL}: is not as recorded\n"
        "FOLDER/venv is as it was\n\n"
        "hint: uv's cache may hold changed files: `uv cache clean nvidia-nccl-cu12`, then run it again\n"
    )
    assert tree_state(stack.venv) == before


def test_a_repair_is_killed_at_every_point(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    scene = make_scene(tmp_path_factory.mktemp("scene"))
    whole = scene.again(tmp_path / "whole")
    code, events = whole.killed(WITH_PROFILE, 0)
    assert code == 0
    new = whole.venv()
    points = _sampled(events)
    assert len(points) >= 20
    print(f"killed at {len(points)} points")  # noqa: T201 - `pytest -rP` shows the figure

    def try_one(at: int) -> None:
        again = scene.again(tmp_path / str(at))
        assert again.killed(WITH_PROFILE, at)[0] == -signal.SIGKILL
        assert _content(again.venv()) in (_content(scene.old), _content(new))
        _nothing_lost(again, scene)
        command = WITH_PROFILE if at % 4 == 0 else ("prune", "--keep", "99", "--venv", "venv", "--yes")
        answer = again.stack.run(*command)
        assert answer.code == 0, answer.err
        again.settled()
        _nothing_lost(again, scene)
        shutil.rmtree(again.folder)

    with ThreadPoolExecutor(workers()) as pool:
        for _ in pool.map(try_one, points):
            pass


def _sampled(events: list[str]) -> list[int]:
    """Return the points: all, but of the copy's many equal steps the first, the last and one between of each kind."""
    points: set[int] = set()
    copying: dict[str, list[int]] = {}
    for number, event in enumerate(events, 1):
        kind = event.partition(" ")[0]
        if "/builds/" in event and kind in ("open", "os.link", "os.mkdir", "os.chmod", "os.utime"):
            copying.setdefault(kind, []).append(number)
        else:
            points.add(number)
    for found in copying.values():
        points |= {found[0], found[len(found) // 2], found[-1]}
    return sorted(points)


def _nothing_lost(again: Scene, scene: Scene) -> None:
    there = again.everywhere()
    assert scene.old in there
    assert scene.kept in there
    assert again.others() == scene.mine
    assert os.path.lexists(again.stack.venv)


def test_a_repair_deletes_nothing_behind_a_link_out_of_the_venv(stack: Stack, tmp_path: Path) -> None:
    site, mine = Venv(prefix=stack.venv).site_packages, tmp_path / "mine"
    shutil.copytree(site / "plain", mine)
    shutil.rmtree(site / "plain")
    (site / "plain").symlink_to(mine)
    rewrite(Venv(prefix=stack.venv).dist_info("plain") / "WHEEL", "torn")
    before = tree_state(mine)
    answer = stack.run(*REPAIR)
    assert answer.code == 0, answer.err
    assert tree_state(mine) == before
    assert not (site / "plain").is_symlink()
    assert (site / "plain/__init__.py").read_bytes() == (mine / "__init__.py").read_bytes()


def test_a_repair_takes_away_a_package_folder_that_is_a_link_to_nowhere(stack: Stack) -> None:
    site = Venv(prefix=stack.venv).site_packages
    shutil.rmtree(site / "plain")
    (site / "plain").symlink_to("/nowhere/plain")
    answer = stack.run(*REPAIR)
    assert answer.code == 0, answer.err
    assert (site / "plain/__init__.py").is_file()


def test_a_repair_removes_nothing_outside_of_the_venv(stack: Stack) -> None:
    venv, home = Venv(prefix=stack.venv), stack.folder / "home"
    config = stack.venv / "pyvenv.cfg"
    config.write_text(config.read_text().replace("site-packages = false", "site-packages = true"))
    user = home / ".local" / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    info = venv.dist_info("nvidia-nccl-cu12")
    shutil.copytree(info, user / info.name)
    with (user / info.name / "RECORD").open("a") as record:
        record.write(f"nvidia/nccl/models.bin,sha256={'A' * 43},5\n")
    mine = user / "nvidia" / "nccl" / "models.bin" / "mine"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    _altered(stack)
    answer = stack.run(*WITH_PROFILE, extra={"HOME": str(home)})
    assert (answer.code, (venv.site_packages / NCCL).read_text()) == (0, "12"), answer.err
    assert mine.read_text() == "mine"


@pytest.mark.parametrize("inner", ["out/mine", "/mine"])
def test_what_leads_out_of_a_copy_is_not_removed(tmp_path: Path, inner: str) -> None:
    copy, mine = tmp_path / "copy", tmp_path / "other" / "mine"
    for folder in (copy, mine):
        folder.mkdir(parents=True)
    (copy / "out").symlink_to(mine.parent)
    named = inner if inner.startswith("out") else str(mine)
    with pytest.raises(RestoreError) as refused:
        remove_from_copy(copy, named)
    assert refused.value.message == f"{copy / named} is outside of the copy that is repaired, so it is not removed"
    assert mine.is_dir()
    remove_from_copy(copy, "out")
    assert (list(copy.iterdir()), mine.is_dir()) == ([], True)


def test_of_two_metadata_folders_the_one_that_owns_the_files_remains(stack: Stack) -> None:
    site = Venv(prefix=stack.venv).site_packages
    stale = site / "plain-2.0.dist-info"
    stale.mkdir()
    (stale / "METADATA").write_text("Metadata-Version: 2.1\nName: plain\nVersion: 2.0\n")
    (stale / "WHEEL").write_text("Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    (stale / "RECORD").write_text("".join(f"{stale.name}/{name},,\n" for name in ("METADATA", "WHEEL", "RECORD")))
    answer = stack.run(*REPAIR)
    assert answer.code == 0, answer.err
    assert [path.name for path in site.glob("plain-*")] == ["plain-3.0.dist-info"]
    assert (site / "plain/__init__.py").is_file()


def test_an_exact_version_is_taken_from_whichever_index_has_it(tmp_path: Path) -> None:
    # An extra index, which uv asks first, has another version of the name alone: it hides the one that is installed.
    stack = make_stack(tmp_path)
    make_venv(stack.venv, *stack.wheels, cache=stack.cache)
    make_wheel(tmp_path / "extra", "plain", "9.0")
    make_wheel(tmp_path / "extra", "some-tool", "9.0")
    (Venv(prefix=stack.venv).site_packages / "some_tool.py").unlink()
    fresh = {"UV_CACHE_DIR": str(tmp_path / "fresh"), "PIP_FIND_LINKS": "", "PIP_NO_INDEX": ""}
    with make_index(tmp_path / "wheels") as index, make_index(tmp_path / "extra") as extra:
        indexes = {**fresh, "PIP_INDEX_URL": index.url, "PIP_EXTRA_INDEX_URL": extra.url}
        answer = stack.run(*REPAIR, extra=indexes)
        assert answer.code == 0, answer.err
        told = stack.run("impact", "install", "plain==3.0", "some-tool==1.2", "--venv", "venv", extra=indexes)
        assert told.code == 0, told.err
        newer = stack.run("impact", "install", "plain==9.0", "--venv", "venv", extra=indexes)
        assert newer.code == 0, newer.err
        assert "plain 3.0 -> 9.0" in newer.out
    assert _check(stack) == 0


def _check(stack: Stack) -> int:
    return stack.run("check", "venv", "--deep").code


def test_of_two_required_owners_the_wanted_one_is_written_last(tmp_path: Path) -> None:
    # nixl requires both of its CUDA builds, which write one path; torch's CUDA major says which is wanted.
    path = "nixl_ep/lib/libnixl.so.1"
    both = [
        make_wheel(tmp_path / "wheels", f"nixl-cu{major}", "1.2", files={path: f"cu{major}", f"nixl_cu{major}.py": ""})
        for major in ("12", "13")
    ]
    nixl = make_wheel(tmp_path / "wheels", "nixl", "1.2", requires=["nixl-cu12", "nixl-cu13"])
    version = "__version__ = '2.11.0+cu130'\ncuda = '13.0'\ngit_version = 'none'\nhip = None\n"
    torch = make_torch(tmp_path / "wheels", files={"torch/version.py": version}, version="2.11.0+cu130")
    stack = make_stack(tmp_path)
    venv = make_venv(stack.venv, torch, nixl, both[1], cache=stack.cache)
    install(venv, both[0], cache=stack.cache)
    assert (venv.site_packages / path).read_text() == "cu12"
    found = json.loads(stack.run("check", "venv", "--json").out)["findings"]
    assert [finding["code"] for finding in found if finding["severity"] == "error"] == ["ED203"]
    answer = stack.run(*REPAIR)
    assert answer.code == 0, answer.err
    assert (
        "  reinstall  nixl-cu13 1.2: nixl-cu12 also writes some of its files, and stays since it is required\n"
        in answer.err
    )
    assert (venv.site_packages / path).read_text() == "cu13"
    assert venv.dist_info("nixl-cu12").is_dir()
    assert _check(stack) == 0
    assert stack.run(*REPAIR).out.startswith("FOLDER/venv needs no repair: ")


def test_a_printed_reinstall_removes_nothing_of_the_users_own(stack: Stack) -> None:
    venv, home = Venv(prefix=stack.venv), stack.folder / "home"
    config = stack.venv / "pyvenv.cfg"
    config.write_text(config.read_text().replace("site-packages = false", "site-packages = true"))
    user = home / ".local" / "lib" / f"python3.{sys.version_info[1]}" / "site-packages"
    info = venv.dist_info("nvidia-nccl-cu12")
    shutil.copytree(info, user / info.name)
    (user / "nvidia").write_text("mine")
    (venv.site_packages / NCCL).unlink()
    answer = stack.run("check", "venv", "--json", extra={"HOME": str(home)})
    told = [finding["remediation"] for finding in json.loads(answer.out)["findings"]]
    commands = [command for remedy in told for command in remedy["commands"]]
    again = "--reinstall-package nvidia-nccl-cu12 nvidia-nccl-cu12==2.1"
    sources = "--no-index --find-links FOLDER/wheels"  # what pip is told here, which uv does not read
    assert commands == [f"uv pip install --python FOLDER/venv/bin/python {sources} --no-deps {again}"]
