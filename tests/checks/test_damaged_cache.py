"""Damage of a compile cache: what `cache status` knows is known to `check`, and the printed command heals."""

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.cache.store import label
from envdoctor.doctor.examine import judge, take_fingerprint
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.model.profile import CompileWanted
from envdoctor.model.verdict import Verdict
from envdoctor.probes.caches.compile_caches import CompileCaches
from tests.factories import make_facts as facts
from tests.factories.examine_venv import outline, verdict_of
from tests.factories.make_cache import cpp_kernel, filled, graph, manifest_of, write
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv
from tests.factories.run_envdoctor import COMMAND, environment, run_envdoctor


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    root = tmp_path_factory.mktemp("damage")
    return make_venv(root / "venv", make_torch(root / "wheels", "2.10.0", None))


def _deep(venv: Venv, host: Host) -> Verdict:
    return judge(take_fingerprint(resolve(venv.prefix), host, Options(deep=True)))


def test_finds_ed504_what_cache_status_knows_and_its_command_heals(venv: Venv, tmp_path: Path) -> None:
    cache = tmp_path / "inductor"
    host = bare_host(tmp_path / "home", TORCHINDUCTOR_CACHE_DIR=str(cache))
    filled(cache)
    assert (verdict_of(venv.prefix, host).findings, _deep(venv, host).findings) == ((), ())
    graph(cache, b"another graph", key="fzzz").write_bytes(b"")
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        "warning ED504 1 file of the inductor cache cannot be used: they are compiled again"
    ]
    (command,) = verdict.findings[0].remediation.commands
    assert command == f"envdoctor cache gc --damaged --venv {venv.prefix}"
    done = subprocess.run(
        [*COMMAND, *shlex.split(command)[1:], "--yes"],
        env=environment(tmp_path, {"TORCHINDUCTOR_CACHE_DIR": str(cache)}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert verdict_of(venv.prefix, host).findings == ()


def test_ed504_contents_are_read_where_files_are_hashed(venv: Venv, tmp_path: Path) -> None:
    cache = tmp_path / "inductor"
    host = bare_host(tmp_path / "home", TORCHINDUCTOR_CACHE_DIR=str(cache))
    path = cpp_kernel(cache)
    path.write_bytes(path.read_bytes()[:3000])
    deep = "1 file of the inductor cache cannot be used: the launch that loads one fails"
    assert outline(verdict_of(venv.prefix, host), tmp_path) == []
    assert outline(_deep(venv, host), tmp_path) == [f"warning ED504 {deep}"]
    path.write_bytes(b"")
    assert outline(verdict_of(venv.prefix, host), tmp_path) == [f"warning ED504 {deep}"]


def test_ed504_an_object_that_ends_a_launch_is_an_error_of_a_profile_that_compiles() -> None:
    profile = replace(facts.PROFILE, compile=CompileWanted(threads=2))
    cache = replace(facts.cache_folder("inductor", 3), damaged=("ab/cab.main.so: empty",))
    (finding,) = judge(facts.fingerprint(CompileCaches(caches=(cache,))), profile).findings[:1]
    assert (finding.code, finding.severity) == ("ED504", "error")


def test_passes_ed504_files_that_are_empty_by_design_or_being_written(venv: Venv, tmp_path: Path) -> None:
    cache = tmp_path / "inductor"
    host = bare_host(tmp_path / "home", TORCHINDUCTOR_CACHE_DIR=str(cache))
    for name in ("ab/x.lock", "ab/__init__.py", "locks/y.lock", "tmp.pid_1_x/z.cubin", "fxgraph/aa/k/.tmp-1"):
        write(cache / name, b"")
    assert verdict_of(venv.prefix, host).findings == ()


OPENED: dict[str, tuple[Callable[[Path], object], str]] = {
    "everybody": (lambda cache: cache.chmod(0o777), "can be written by everybody"),
    "sticky": (lambda cache: cache.chmod(0o1777), "can be written by everybody"),
    "a folder below": (
        lambda cache: (cache / "fxgraph").chmod(0o777), "holds fxgraph, which can be written by everybody"
    ),
    "a file below": (
        lambda cache: (cache / "xy/cxyz0.main.so").chmod(0o666),
        "holds xy/cxyz0.main.so, which can be written by everybody",
    ),
    "another user": (lambda cache: os.chown(cache, 4711, -1), "belongs to user 4711"),
    "another user's file": (
        lambda cache: os.chown(cache / "xy/cxyz0.main.so", 4711, -1),
        "holds xy/cxyz0.main.so, which belongs to user 4711",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", OPENED)
def test_finds_ed505_a_cache_that_others_can_fill_as_cache_status_does(venv: Venv, tmp_path: Path, how: str) -> None:
    if "user" in how and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    cache = tmp_path / "inductor"
    host = bare_host(tmp_path / "home", TORCHINDUCTOR_CACHE_DIR=str(cache))
    root = filled(cache)
    label(cache, manifest_of(root))
    open_it, who = OPENED[how]
    open_it(cache)
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [
        "warning ED505 somebody else can put code into the inductor cache, and a launch runs what is in it"
    ]
    (finding,) = verdict.findings
    assert finding.evidence == (f"{cache} (TORCHINDUCTOR_CACHE_DIR) {who}",)
    assert finding.remediation.commands == ('export TORCHINDUCTOR_CACHE_DIR="$HOME/.cache/inductor-own"',)
    command = ("cache", "status", "--venv", venv.prefix, "--color", "never")
    told = run_envdoctor(*command, folder=tmp_path, extra={"TORCHINDUCTOR_CACHE_DIR": str(cache)})
    assert told.code != 0
    assert f"{who}: torch runs the code that is in it" in told.out
    assert "will hit" not in told.out
    saved = run_envdoctor(
        "cache", "save", "x", "--venv", venv.prefix, folder=tmp_path, extra={"TORCHINDUCTOR_CACHE_DIR": str(cache)}
    )
    assert (saved.code, saved.err.splitlines()[0]) == (
        1, f"error: [TMP]/inductor {who}, who can have put any code there; no snapshot was written"
    )  # fmt: skip
    # What is printed heals: the new folder is empty and nobody else's.
    (tmp_path / "home/.cache/inductor-own").mkdir(parents=True, mode=0o700)
    own = bare_host(tmp_path / "home", TORCHINDUCTOR_CACHE_DIR=str(tmp_path / "home/.cache/inductor-own"))
    assert verdict_of(venv.prefix, own).findings == ()


def test_passes_ed505_a_cache_of_the_environments_owner(venv: Venv, tmp_path: Path) -> None:
    cache = tmp_path / "inductor"
    filled(cache).path.chmod(0o775)
    host = bare_host(tmp_path / "home", TORCHINDUCTOR_CACHE_DIR=str(cache))
    assert verdict_of(venv.prefix, host).findings == ()
    if os.geteuid() == 0:
        shutil.copytree(venv.prefix, tmp_path / "venv", symlinks=True)
        for path in (tmp_path / "venv", cache, *cache.rglob("*")):
            os.chown(path, 4711, -1)
        assert "ED505" not in {finding.code for finding in verdict_of(tmp_path / "venv", host).findings}
