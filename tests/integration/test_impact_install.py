"""`impact install`: tried on a copy, told, and not a byte of the venv has changed, whatever uv does in the copy."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest

import envdoctor.report
from envdoctor.explore.scratch import scratch_copy
from envdoctor.swap.store import BackupStore
from tests.factories.make_cuda_stack import CudaWheels, make_cuda_wheels
from tests.factories.make_index import make_index
from tests.factories.make_venv import Venv, install, make_venv, offline_settings, tree_state
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import COMMAND, Outcome, environment, run_envdoctor
from tests.factories.schemas import closed

SCHEMA = json.loads((Path(envdoctor.report.__file__).parent / "schema/impact-1.json").read_text())
NCCL = "nvidia/nccl/lib/libnccl.so.2"
LARGE = bytes(range(256)) * 4096


@pytest.fixture(scope="module")
def cuda(tmp_path_factory: pytest.TempPathFactory) -> CudaWheels:
    return make_cuda_wheels(tmp_path_factory.mktemp("wheels"))


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    """Distributions that later wheels overwrite, replace, or leave alone."""
    wheels = tmp_path / "wheels"
    own = [
        make_wheel(
            wheels, "one", "1.0", files={"shared/big.so": LARGE, "shared/small.py": "x = 1\n"}, scripts={"tool": "a:b"}
        ),
        make_wheel(wheels, "kept", "1.0", files={"kept/__init__.py": "", "kept/big.bin": LARGE}),
    ]
    make_wheel(wheels, "kept", "2.0", files={"kept/__init__.py": "", "kept/new.bin": LARGE})
    make_wheel(
        wheels,
        "two",
        "1.0",
        files={
            "shared/big.so": LARGE[::-1],
            "shared/small.py": "x = 2\n",
            "two-1.0.data/data/share/notes.txt": "two",
            "two-1.0.data/scripts/other": "#!python\nprint('two')\n",
        },
        requires=["absent>=3"],
        scripts={"tool": "c:d"},
    )
    make_wheel(wheels, "extra", "1.0", requires=["kept"])
    made = make_venv(tmp_path / "venv", *own)
    (made.prefix / "share").mkdir(exist_ok=True)
    (made.prefix / "share/notes.txt").write_text("one")
    (made.prefix / "bin/other").write_text("#!/bin/sh\n")
    return made


def _impact(venv: Venv, *arguments: str | Path, extra: Mapping[str, str] | None = None) -> Outcome:
    return run_envdoctor(
        "impact",
        "install",
        *arguments,
        "--venv",
        venv.prefix,
        folder=venv.prefix.parent,
        extra=extra or offline_settings(venv),
    )


def _document(venv: Venv, *arguments: str, extra: Mapping[str, str] | None = None) -> tuple[int, dict[str, object]]:
    outcome = _impact(venv, *arguments, "--json", extra=extra)
    assert outcome.out, outcome.err
    document = json.loads(outcome.out.replace("[TMP]", str(venv.prefix.parent)))
    jsonschema.validate(document, closed(SCHEMA))
    return outcome.code, document


def _inodes(venv: Venv) -> dict[str, tuple[int, int, int, int]]:
    """Return what a write through a link would change; a link more or less changes only the inode's own time."""
    found = {}
    for path in sorted(venv.prefix.rglob("*")):
        status = path.lstat()
        found[str(path)] = (status.st_ino, status.st_size, status.st_mode, status.st_mtime_ns)
    return found


def _site(venv: Venv, path: str) -> str:
    return str((venv.site_packages / path).relative_to(venv.prefix))


@pytest.mark.parametrize("mode", ["copy", "hardlink", "symlink", "clone"])
def test_the_venv_is_not_touched(venv: Venv, mode: str) -> None:
    before, inodes = tree_state(venv.prefix), _inodes(venv)
    cache = tree_state(venv.prefix.parent / ".uv-cache")
    code, _ = _document(venv, "two", "kept==2.0", "--no-deps", "-U", extra=offline_settings(venv, UV_LINK_MODE=mode))
    assert code == 1
    assert tree_state(venv.prefix) == before
    assert _inodes(venv) == inodes
    assert not (venv.prefix.parent / ".envdoctor").exists()
    after = tree_state(venv.prefix.parent / ".uv-cache")
    assert {path: state for path, state in after.items() if path in cache and "archive" in path} == {
        path: state for path, state in cache.items() if "archive" in path
    }


def test_what_another_would_lose(venv: Venv) -> None:
    code, told = _document(venv, "two==1.0", "--no-deps")
    assert code == 1
    assert told["distributions"] == [{"name": "two", "before": "", "after": "1.0"}]
    assert told["losses"] == [
        {
            "owner": "one",
            "version": "1.0",
            "paths": [_site(venv, "shared/big.so"), "bin/tool", _site(venv, "shared/small.py")],
            "taken_by": "two",
        }
    ]
    assert told["unmet"] == ["two 1.0 requires absent>=3"]
    assert told["harmful"] is True
    assert told["commands"] == []
    install(venv, venv.prefix.parent / "wheels/two-1.0-py3-none-any.whl")
    assert (venv.site_packages / "shared/big.so").read_bytes() == LARGE[::-1], "and so it is"


def test_an_upgrade_that_harms_nobody(venv: Venv) -> None:
    outcome = _impact(venv, "kept==2.0", "extra")
    python = venv.site_packages.parent.name
    assert (outcome.code, outcome.out.replace(python, "[PYTHON]")) == (
        0,
        """\
envdoctor impact install kept==2.0 extra  [TMP]/venv   (nothing was changed)
distributions:
  + extra 1.0
  ~ kept 1.0 -> 2.0
files that would be removed:
  kept 1.0: 8 files, 1.0 MB
files that others would lose: none
libraries with another provider: none
`import torch`: nothing would change
unmet requirements afterwards: none
would stop loading: nothing
findings that would be new: none
findings that would be gone: none
Nothing else would break.
help: to do it:
      uv pip install --python [TMP]/venv/bin/python kept==2.0 extra
""",
    )
    # A busy machine is told, too, that the venv is being read.
    assert outcome.err.removeprefix("reading [TMP]/venv\n") == (
        "copying [TMP]/venv\ninstalling kept==2.0 extra into the copy\ncomparing the copy with the venv\n"
    )


def test_a_library_that_the_import_would_take_from_another_owner(tmp_path: Path, cuda: CudaWheels) -> None:
    venv = make_venv(tmp_path / "venv", *cuda.all())
    shutil.copytree(cuda.folder, tmp_path / "wheels")
    _, told = _document(venv, "nvidia-nccl-cu13", "--no-deps")
    assert told["providers"] == [
        {
            "soname": "libnccl.so.2",
            "before": _site(venv, NCCL),
            "before_owner": "nvidia-nccl-cu12",
            "after": _site(venv, NCCL),
            "after_owner": "nvidia-nccl-cu13",
            "used": True,
        }
    ]
    assert (told["import_before"], told["import_after"]) == ("", "")
    assert [line["code"] for line in told["appear"]] == ["ED203", "ED302"]  # type: ignore[attr-defined]


def test_a_venv_of_symlinks(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    one = make_wheel(wheels, "one", "1.0", files={"shared/big.so": LARGE})
    make_wheel(wheels, "two", "1.0", files={"shared/big.so": LARGE[::-1]})
    venv = make_venv(tmp_path / "venv")
    install(venv, one, link_mode="symlink")
    before = tree_state(venv.prefix)
    _, told = _document(venv, "two")
    assert told["harmful"] is True
    assert tree_state(venv.prefix) == before
    assert (venv.site_packages / "shared/big.so").read_bytes() == LARGE


@pytest.mark.parametrize("written", ["{prefix}/lib", "../venv/lib", "lib"])
def test_a_link_inside_leads_to_the_copy_however_it_is_written(venv: Venv, written: str) -> None:
    lib64 = venv.prefix / "lib64"
    lib64.unlink(missing_ok=True)
    lib64.symlink_to(written.format(prefix=venv.prefix))
    before = tree_state(venv.prefix)
    code, told = _document(venv, "kept==2.0")
    assert (code, told["distributions"]) == (0, [{"name": "kept", "before": "1.0", "after": "2.0"}])
    assert tree_state(venv.prefix) == before


def test_a_folder_that_is_a_link_out_is_refused(venv: Venv, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    (venv.site_packages / "kept").rename(elsewhere)
    (venv.site_packages / "kept").symlink_to(elsewhere)
    before = tree_state(elsewhere)
    outcome = _impact(venv, "kept==2.0")
    path = _site(venv, "kept")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.endswith(
        f"error: [TMP]/venv/{path} is a link out of the environment, to [TMP]/elsewhere: a copy would share that "
        "folder\n\nhint: try the install in a venv of its own\n"
    )
    assert tree_state(elsewhere) == before
    assert not (tmp_path / ".envdoctor").exists()


def test_a_fifo_is_left_out_and_said(venv: Venv) -> None:
    os.mkfifo(venv.site_packages / "pipe")
    _, told = _document(venv, "kept==2.0")
    assert told["notes"] == [f"{venv.site_packages / 'pipe'} is not a file and was not copied"]


def test_what_cannot_be_installed_is_could_not_tell(venv: Venv) -> None:
    outcome = _impact(venv, "kept==9.9")
    assert (outcome.code, outcome.out) == (3, "")
    assert "error: kept==9.9 cannot be installed: no configured source has kept 9.9 for this interpreter" in outcome.err
    assert not (venv.prefix.parent / ".envdoctor").exists()


def test_what_is_installed_already_is_answered_without_a_copy(venv: Venv) -> None:
    outcome = _impact(venv, "kept>=1")
    assert (outcome.code, outcome.err) == (0, "")
    assert (
        outcome.out
        == """\
envdoctor impact install kept>=1  [TMP]/venv   (nothing was changed)
distributions: none would change
files that would be removed: none
files that others would lose: none
libraries with another provider: none
`import torch`: nothing would change
unmet requirements afterwards: none
would stop loading: nothing
findings that would be new: none
findings that would be gone: none
note:
  kept>=1: installed already, with all that it requires; uv would change nothing
Nothing else would break.
"""
    )


def test_build_isolation_is_passed_on(venv: Venv) -> None:
    code, document = _document(venv, "extra", "--no-build-isolation")
    python = venv.python
    assert (code, document["commands"]) == (0, [f"uv pip install --python {python} --no-build-isolation extra"])


@pytest.mark.parametrize("spec", ["--python=/usr/bin/python3", "--target=/tmp/x", "-e.", "x y", "???", "", "numpy=1"])
def test_what_is_no_requirement_is_refused_before_anything_is_copied(venv: Venv, spec: str) -> None:
    outcome = run_envdoctor(
        "impact", "install", "--venv", venv.prefix, "--", spec, folder=venv.prefix.parent, extra=offline_settings(venv)
    )
    assert (outcome.code, outcome.err) == (
        2,
        f"error: `{spec}` is not a requirement\n\nhint: name distributions: `envdoctor impact install numpy==2.4.4`\n",
    )


def test_pips_configuration_is_honoured(venv: Venv, tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(f"[global]\nno-index = true\nfind-links = {tmp_path / 'wheels'}\n")
    extra = offline_settings(venv, PIP_CONFIG_FILE=str(config))
    del extra["UV_FIND_LINKS"]
    code, told = _document(venv, "kept==2.0", extra=extra)
    assert (code, told["distributions"]) == (0, [{"name": "kept", "before": "1.0", "after": "2.0"}])


def test_an_index_that_has_another_version_hides_no_exact_one(venv: Venv, tmp_path: Path) -> None:
    make_wheel(tmp_path / "newer", "kept", "3.0")
    with make_index(tmp_path / "newer") as newer, make_index(tmp_path / "wheels") as index:
        reach = {"UV_OFFLINE": "0", "UV_INDEX": newer.url, "UV_DEFAULT_INDEX": index.url}
        extra = offline_settings(venv, **reach)
        del extra["UV_FIND_LINKS"]
        code, told = _document(venv, "kept==2.0", extra=extra)
    assert (code, told["distributions"]) == (0, [{"name": "kept", "before": "1.0", "after": "2.0"}])


def test_constraints_of_uv_are_honoured(venv: Venv, tmp_path: Path) -> None:
    (tmp_path / "constraints.txt").write_text("kept<2\n")
    outcome = _impact(venv, "kept==2.0", extra=offline_settings(venv, UV_CONSTRAINT=str(tmp_path / "constraints.txt")))
    assert outcome.code == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_nothing_behind(venv: Venv, number: signal.Signals) -> None:
    before = tree_state(venv.prefix)
    command = [*COMMAND, "impact", "install", "kept==2.0", "--venv", str(venv.prefix)]
    with subprocess.Popen(
        command,
        cwd=venv.prefix.parent,
        env=environment(venv.prefix.parent, offline_settings(venv)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        process.stderr.readline()
        while not list(venv.prefix.parent.glob(".envdoctor/*/scratch/*/copy")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(number)
        process.wait(120)
    assert process.returncode == 130
    assert not (venv.prefix.parent / ".envdoctor").exists()
    assert tree_state(venv.prefix) == before


def test_a_copy_in_use_is_left_alone_and_one_of_a_killed_command_is_not(venv: Venv) -> None:
    store = BackupStore.of(venv.prefix)
    store.root.mkdir(parents=True)
    prune = ("prune", "--keep", "9", "--yes", "--venv", venv.prefix)
    said = "a copy that an earlier command left unfinished was removed"
    with scratch_copy(venv.prefix) as one, scratch_copy(venv.prefix) as other:
        done = run_envdoctor(*prune, folder=venv.prefix.parent, extra=offline_settings(venv))
        assert (done.code, said in done.err) == (0, False), done.err
        assert Path(one.copy, "pyvenv.cfg").is_file()
        assert Path(other.copy, "pyvenv.cfg").is_file()
        shutil.copytree(store.scratches, store.root / "left", symlinks=True)
    (store.root / "left").rename(store.scratches)
    done = run_envdoctor(*prune, folder=venv.prefix.parent, extra=offline_settings(venv))
    assert (done.code, said in done.err) == (0, True), done.err
    assert list(store.scratches.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root makes a folder of another user")
def test_a_store_of_another_user_is_not_worked_in(venv: Venv) -> None:
    store = venv.prefix.parent / ".envdoctor"
    store.mkdir(mode=0o777)
    os.chown(store, 65534, 65534)
    done = _impact(venv, "two==1.0", "--no-deps")
    assert (done.code, done.out) == (4, "")
    assert done.err.splitlines()[-3:] == [
        "error: [TMP]/.envdoctor belongs to another user, so nothing in it is touched",
        "",
        "hint: look at what it is and move it away; envdoctor makes [TMP]/.envdoctor/venv itself",
    ]
    assert list(store.iterdir()) == []


def test_why_and_impact_tell_one_size(venv: Venv) -> None:
    asked = (("why", "one"), ("impact", "remove", "one"))
    told = [
        json.loads(run_envdoctor(*words, "--venv", venv.prefix, "--json", folder=venv.prefix.parent).out)
        for words in asked
    ]
    answer, (gone,) = told[0]["distribution"], told[1]["gone"]
    assert (answer["files"], answer["bytes"]) == (gone["files"], gone["bytes"])
    assert gone["bytes"] > len(LARGE)
