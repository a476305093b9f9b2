"""Damage of a compile cache: what `cache status` knows is known to `check`, and the printed command heals."""

import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.doctor.examine import judge, take_fingerprint
from envdoctor.facts.context import Options
from envdoctor.facts.host import Host
from envdoctor.facts.target import resolve
from envdoctor.model.profile import CompileWanted
from envdoctor.model.verdict import Verdict
from envdoctor.probes.caches.compile_caches import CompileCaches
from tests.factories import make_facts as facts
from tests.factories.examine_venv import outline, verdict_of
from tests.factories.make_cache import cpp_kernel, filled, graph, write
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, make_venv
from tests.factories.run_envdoctor import COMMAND, environment


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
