"""Running a warm-up twice and believing only torch's own counters."""

import json
import sys
from pathlib import Path

import pytest

from envdoctor.cache import relocate, runtime_key
from envdoctor.cache.key_parts import KeyPart
from envdoctor.cache.layout import Root
from envdoctor.cache.warm import Warmed, WarmupRun, command, warm
from envdoctor.errors import CacheError
from tests.factories.make_cache import KEY, cpp_kernel, filled, manifest_of

COUNTERS = {
    "cold": {"fxgraph_cache_miss": 2, "autograd_cache_miss": 1},
    "warm": {"fxgraph_cache_hit": 2, "autograd_cache_hit": 1},
}


def script(tmp_path: Path, body: str) -> list[str]:
    path = tmp_path / "warmup.py"
    path.write_text(f"import json, os, sys, pathlib\ncache = pathlib.Path(sys.argv[1])\n{body}\n")
    return [sys.executable, str(path), str(tmp_path / "cache")]


def twice(tmp_path: Path, body: str) -> Warmed:
    root = Root(kind="inductor", path=tmp_path / "cache", found_via="default")
    first, second = warm(script(tmp_path, body), {}, tmp_path, [root], print)
    return Warmed(first=first, second=second, was_cold=True)


HONEST = f"""
graph = cache / "fxgraph/ab/fkey/graph"
cold = not graph.exists()
graph.parent.mkdir(parents=True, exist_ok=True)
graph.write_text("x")
print("warming up")
print(json.dumps({{"ranks": [{json.dumps(COUNTERS)}["cold" if cold else "warm"]] * 2, "seconds": 3}}))
"""


def test_a_warm_up_that_warms_is_proven(tmp_path: Path) -> None:
    warmed = twice(tmp_path, HONEST)
    assert warmed.first.counters == {"fxgraph_cache_miss": 4, "autograd_cache_miss": 2}
    assert warmed.first.added == ("inductor/fxgraph/ab/fkey/graph",)
    assert (warmed.first.compiled, warmed.second.compiled, warmed.second.hits) == (4, 0, 4)
    assert warmed.doubts == ()


def test_a_graph_the_cache_cannot_hold_is_no_warm_cache(tmp_path: Path) -> None:
    warmed = twice(tmp_path, 'print(json.dumps({"fxgraph_cache_hit": 3, "fxgraph_cache_bypass": 1}))')
    assert warmed.doubts == ("the second run counted 1 fxgraph_cache_bypass",)


def test_files_added_by_the_second_run_are_no_warm_cache(tmp_path: Path) -> None:
    # torch's counters say "hit" while g++ runs: the name of a C++ kernel holds more than the graph's key.
    body = """
kernel = cache / "ab" / f"c{len(list(cache.glob('ab/*')))}.main.so"
kernel.parent.mkdir(parents=True, exist_ok=True)
kernel.write_text("x")
print(json.dumps({"fxgraph_cache_hit": 1}))
"""
    assert twice(tmp_path, body).doubts == ("the second run added 1 files: inductor/ab/c1.main.so",)


def test_a_warm_up_that_compiles_nothing_proves_nothing(tmp_path: Path) -> None:
    assert twice(tmp_path, 'print(json.dumps({"fxgraph_cache_hit": 0}))').doubts == (
        "the second run counted no fxgraph_cache_hit: it compiled nothing that the cache could serve",
    )


@pytest.mark.parametrize("printed", ["", "print('done')", "print('{\"loss\": 3}')", "print('[1, 2]')"])
def test_without_counters_nothing_is_proven(tmp_path: Path, printed: str) -> None:
    with pytest.raises(CacheError) as caught:
        twice(tmp_path, printed)
    words = " ".join(script(tmp_path, printed))
    assert caught.value.message == f"the warm-up `{words}` said nothing of torch's counters, so nothing is proven"


def test_a_warm_up_that_fails(tmp_path: Path) -> None:
    with pytest.raises(CacheError) as caught:
        twice(tmp_path, "sys.exit(7)")
    words = " ".join(script(tmp_path, "sys.exit(7)"))
    assert caught.value.message == f"the warm-up `{words}` ended with 7; the cache is not warm"
    with pytest.raises(CacheError) as caught:
        list(warm(["/no/such/program"], {}, tmp_path, [], print))
    assert caught.value.message == "`/no/such/program` cannot be run: No such file or directory"


def test_the_command_is_the_profiles_or_the_trainers_own() -> None:
    assert command((), Path("/venv/bin/python"), "good") == [
        "/venv/bin/python",
        "-m",
        "trainer.warmup",
        "--profile",
        "good",
    ]
    assert command(("{python}", "warm.py", "--all"), Path("/p"), "good") == ["/p", "warm.py", "--all"]


def test_compiling_cost_what_the_first_run_took_longer() -> None:
    runs = [WarmupRun(seconds=seconds, counters={}, added=()) for seconds in (90.0, 12.5)]
    assert Warmed(first=runs[0], second=runs[1], was_cold=True).compile_seconds == 77.5
    assert Warmed(first=runs[1], second=runs[0], was_cold=True).compile_seconds == 0.0


def fake_torch(tmp_path: Path, answer: object, noise: str = "") -> Path:
    """Return an interpreter that answers as a script of ours would."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\nprintf '%s\\n' '{noise}' \"$3\"'{json.dumps(answer)}' 'bye'\n")
    path.chmod(0o755)
    return path


def test_what_torch_says_replaces_what_was_read(tmp_path: Path) -> None:
    answer = {
        "version": "2.13.0+cpu",
        "key": "cd" * 32,
        "triton": "",
        "gpu": "NVIDIA H100",
        "config": {"inductor.max_autotune": "False", "inductor.pass": "<function f at 0x7f00>"},
    }
    told = runtime_key.ask(fake_torch(tmp_path, answer, "a banner"), {}, tmp_path)
    parts = {part.name: part.value for part in runtime_key.merged(KEY, told)}
    assert (parts["torch.sources"], parts["gpu.name"]) == ("cd" * 32, "NVIDIA H100")
    assert parts["config.inductor.max_autotune"] == "False"
    # An address differs from one process to the next and is not part of anything.
    assert parts["config.inductor.pass"] == "<function f>"


def test_a_torch_that_cannot_be_asked(tmp_path: Path) -> None:
    with pytest.raises(CacheError) as caught:
        runtime_key.run_script(
            Path(sys.executable), "raise ImportError('libcudnn.so.9: cannot open')", (), {}, tmp_path
        )
    assert caught.value.message == (
        f"{sys.executable}: the venv's torch could not be queried (exit 1): ImportError: libcudnn.so.9: cannot open"
    )
    with pytest.raises(CacheError) as caught:
        runtime_key.ask(tmp_path / "absent", {}, tmp_path)
    assert caught.value.message == f"{tmp_path}/absent cannot be run: No such file or directory"


def test_kernels_get_the_names_that_torch_proves(tmp_path: Path) -> None:
    root = filled(tmp_path / "cache")
    cpp_kernel(root.path, "cab11")
    manifest = manifest_of(root)
    here = tuple(KeyPart(name=part.name, value="/here") if part.name == "venv.prefix" else part for part in KEY)
    assert relocate.needed(manifest, KEY) == 0
    assert relocate.needed(manifest, here) == 2
    done = relocate.relocate(manifest, root.path, here, fake_torch(tmp_path, {"cxyz0": "cqq99"}), {}, tmp_path)
    assert (done.kernels, done.renamed) == (2, 1)
    assert (root.path / "qq/cqq99.main.so").read_bytes() == (root.path / "xy/cxyz0.main.so").read_bytes()
    assert (root.path / "qq/cqq99.main.cpp").is_file()
    assert relocate.needed(done.manifest, here) == 3
    answer = {"cxyz0": "cqq99", "cab11": "crr99"}
    done = relocate.relocate(manifest, root.path, here, fake_torch(tmp_path, answer), {}, tmp_path)
    # With every kernel renamed the cache is this venv's: the manifest says so.
    assert relocate.needed(done.manifest, here) == 0
    assert {file.path for file in done.manifest.files} - {file.path for file in manifest.files} == {
        "qq/cqq99.main.cpp",
        "qq/cqq99.main.so",
        "rr/crr99.main.cpp",
        "rr/crr99.main.so",
    }


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    root = filled(tmp_path / "cache")
    here = (KeyPart(name="venv.prefix", value="/here"),)
    with pytest.raises(CacheError) as caught:
        relocate.relocate(manifest_of(root), root.path, here, fake_torch(tmp_path, {"cxyz0": "../evil"}), {}, tmp_path)
    assert caught.value.message == "the venv's torch names a kernel '../evil'"
