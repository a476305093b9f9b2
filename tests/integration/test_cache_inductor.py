"""The cache commands over real inductor on a CPU: what status says is what torch then does."""

import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from envdoctor.report import schemas
from tests.factories.make_inductor import Inductor, inductor
from tests.factories.make_profile import make_profile
from tests.factories.make_wheel import make_wheel
from tests.factories.run_envdoctor import COMMAND, ROOT, Outcome, environment, run_envdoctor
from tests.factories.schemas import closed

if importlib.util.find_spec("torch") is None:
    pytest.skip("torch is not installed beside the tests", allow_module_level=True)

MISS = {"fxgraph_cache_miss": 1, "autograd_cache_miss": 1}
HIT = {"fxgraph_cache_hit": 1, "autograd_cache_hit": 1}
VENV = ("--venv", sys.prefix)


@pytest.fixture(scope="module")
def compiler() -> Iterator[Inductor]:
    with inductor() as process:
        yield process


@pytest.fixture(scope="module")
def warm(compiler: Inductor, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose cache holds two functions, saved under the name `two`; tests copy it."""
    folder = tmp_path_factory.mktemp("warm")
    assert cache_command("status", folder=folder).out.splitlines()[:2] == [
        f"The compile cache of {sys.prefix} is cold",
        "  - no file is in any cache folder: everything will be compiled",
    ]
    assert compiler.run(folder / "cache", "double", "shift") == dict.fromkeys(MISS, 2)
    saved = cache_command("save", "two", folder=folder)
    assert (saved.code, saved.err) == (0, "")
    return folder


@pytest.fixture
def copy(warm: Path, tmp_path: Path) -> Path:
    shutil.copytree(warm, tmp_path, dirs_exist_ok=True)
    label = tmp_path / "cache/.envdoctor/two.json"
    # As if the cache had been filled where the copy lies.
    label.write_text(label.read_text().replace(str(warm), str(tmp_path)))
    return tmp_path


def cache_command(command: str, *arguments: str, folder: Path, **extra: str) -> Outcome:
    variables = {
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache"),
        "ENVDOCTOR_CACHE_STORE": str(folder / "store"),
        **extra,
    }
    venv = VENV if command in ("status", "save", "restore", "gc", "warm") else ()
    return run_envdoctor("cache", command, *arguments, *venv, folder=folder, extra=variables)


def status(folder: Path, **extra: str) -> tuple[int, str, list[str]]:
    """Return the exit code, state and reasons of `cache status`."""
    done = cache_command("status", "--json", folder=folder, **extra)
    document = json.loads(done.out)
    return done.code, document["state"], document["reasons"]


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock"}


def graph_of_double(folder: Path) -> Path:
    """Return the FX-graph entry of `double`: the one whose generated code computes no cosine."""
    (entry,) = (path for path in (folder / "cache/fxgraph").glob("*/*/*") if b"cos(" not in path.read_bytes())
    return entry


def test_a_second_process_hits_and_status_says_so(compiler: Inductor, copy: Path) -> None:
    assert status(copy) == (
        3,
        "hit",
        [
            "every part of the key is what it was on [TIME], and so is every file, by its hash",
            "that this environment filled it is what two says, and was not measured: `cache save` takes your word "
            "for it",
        ],
    )
    before = files(copy)
    assert compiler.run(copy / "cache", "double", "shift") == dict.fromkeys(HIT, 2)
    assert files(copy) == before


def test_the_key_read_from_files_is_torchs_own(compiler: Inductor, copy: Path) -> None:
    document = json.loads(cache_command("status", "--json", folder=copy).out)
    (sources,) = (part for part in document["key"] if part["name"] == "torch.sources")
    assert sources["value"] == compiler.torch_key


def test_another_torch_misses_and_is_named(compiler: Inductor, copy: Path) -> None:
    label = copy / "cache/.envdoctor/two.json"
    label.write_text(label.read_text().replace(compiler.torch_key, "0" * 64).replace('"2.13.0+cpu"', '"2.11.0+cpu"'))
    assert compiler.run(copy / "cache", "double", torch_key="0" * 64) == MISS
    code, state, reasons = status(copy)
    assert (code, state) == (1, "miss")
    assert reasons == [
        f"torch.sources: was `{'0' * 16}…`, is `{compiler.torch_key[:16]}…`; fx graph and autograd graph entries miss",
        "torch.version: was `2.11.0+cpu`, is `2.13.0+cpu`; fx graph and autograd graph entries miss",
    ]


def test_another_gpu_misses_and_is_named(compiler: Inductor, copy: Path) -> None:
    label = copy / "cache/.envdoctor/two.json"
    manifest = json.loads(label.read_text())
    for part in manifest["key"]:
        if part["name"] == "gpu.name":
            part["value"] = "NVIDIA H100 80GB HBM3"
    label.write_text(json.dumps(manifest))
    assert compiler.run(copy / "cache", "double", gpu="NVIDIA H100 80GB HBM3") == MISS
    assert status(copy) == (
        1,
        "miss",
        ["gpu.name: was `NVIDIA H100 80GB HBM3`, is not set; fx graph and autograd graph entries miss"],
    )


def test_another_configuration_misses_and_is_named(compiler: Inductor, copy: Path) -> None:
    assert status(copy, TORCHINDUCTOR_MAX_AUTOTUNE="1") == (
        1,
        "miss",
        [
            "env.TORCHINDUCTOR_MAX_AUTOTUNE (sets max_autotune): was not set, is `1`; "
            "fx graph and autograd graph entries miss"
        ],
    )
    assert compiler.run(copy / "cache", "double", config={"max_autotune": True}) == MISS
    # What the key does not hold is not named: the number of compile workers changes nothing.
    assert status(copy, TORCHINDUCTOR_COMPILE_THREADS="7")[1] == "hit"


def test_a_truncated_entry_is_found_and_removed_alone(compiler: Inductor, copy: Path) -> None:
    entry = graph_of_double(copy)
    entry.write_bytes(entry.read_bytes()[:-100])
    where = entry.relative_to(copy / "cache").as_posix()
    code, state, reasons = status(copy)
    assert (code, state, reasons) == (1, "partial", ["1 damaged entries will be compiled again"])
    assert (
        f"  inductor/{where}: {entry.name}: its content is not what its name says\n"
        in cache_command("status", folder=copy).out
    )
    before = files(copy / "cache")
    cleaned = cache_command("gc", "--damaged", "--yes", folder=copy)
    assert cleaned.err == f"1 entry can go, 0.1 MB\n  inductor/{where} (fx graph, 0.1 MB): damaged\n"
    assert before - files(copy / "cache") == {where}
    # The graph is asked for twice: by its autograd entry, which is whole, and then by the compiler.
    assert compiler.run(copy / "cache", "double", "shift") == HIT | MISS | {"fxgraph_cache_miss": 2}


def test_a_cut_kernel_is_removed_with_its_source(compiler: Inductor, copy: Path) -> None:
    kernel = next((copy / "cache").glob("*/*.main.so"))
    kernel.write_bytes(kernel.read_bytes()[:5000])
    # Nothing tells what is wrong: the process that maps a cut library dies.
    assert compiler.run(copy / "cache", "double", "shift")["error"].startswith("killed by signal ")
    assert cache_command("gc", "--damaged", "--yes", folder=copy).code == 0
    assert not kernel.with_suffix(".cpp").exists()
    assert compiler.run(copy / "cache", "double", "shift") == dict.fromkeys(HIT, 2)


def test_a_kernel_that_would_end_the_launch_is_no_hit(compiler: Inductor, copy: Path) -> None:
    shutil.copytree(copy / "cache", copy / "well")
    kernel = next((copy / "cache").glob("*/*.main.so"))
    content = kernel.read_bytes()
    damages = {
        "zeros inside": content[:1000] + bytes(len(content) - 2000) + content[-1000:],
        "no header": bytes(200) + content[200:],
        "cut": content[:3000],
        "empty": b"",
    }
    for damage, changed in damages.items():
        shutil.rmtree(copy / "cache")
        shutil.copytree(copy / "well", copy / "cache")
        kernel.write_bytes(changed)
        assert "error" in compiler.run(copy / "cache", "double", "shift"), damage
        code, state, reasons = status(copy)
        assert (code, state) == (1, "miss"), damage
        assert reasons[0].startswith("1 damaged kernel would be loaded as found, and end the launch: "), damage
        assert cache_command("gc", "--damaged", "--yes", folder=copy).code == 0
        assert not kernel.exists(), damage
    # The compiler makes the one that is gone, whatever was wrong with it.
    assert compiler.run(copy / "cache", "double", "shift") == dict.fromkeys(HIT, 2)


def test_without_a_compiler_the_launch_ends_and_status_says_so(compiler: Inductor, copy: Path) -> None:
    kernel = next((copy / "cache").glob("*/*.main.so"))
    for path in kernel.parent.glob(f"{kernel.name.partition('.')[0]}.*"):
        path.unlink()
    (copy / "bin").mkdir()
    environ = {"PATH": str(copy / "bin"), "CXX": ""}
    assert "error" in compiler.run(copy / "cache", "double", "shift", environ=environ)
    code, state, reasons = status(copy, **environ)
    assert (code, state) == (1, "miss")
    assert reasons[0].startswith("no C++ compiler is on PATH")


def test_another_level_of_provenance_misses(compiler: Inductor, copy: Path) -> None:
    assert compiler.run(copy / "cache", "double", config={"trace.provenance_tracking_level": 1}) == MISS
    code, state, reasons = status(copy, TORCH_COMPILE_DEBUG="1")
    assert (code, state) == (1, "miss")
    assert reasons[0].startswith("env.TORCH_COMPILE_DEBUG (sets trace.provenance_tracking_level): was not set, is `1`;")


def test_a_variable_at_its_default_changes_nothing(compiler: Inductor, copy: Path) -> None:
    assert status(copy, TORCHINDUCTOR_MAX_AUTOTUNE="0", TORCH_COMPILE_DEBUG="0")[:2] == (3, "hit")
    assert compiler.run(copy / "cache", "double", config={"max_autotune": False}) == HIT


def test_another_instruction_set_is_no_hit(compiler: Inductor, copy: Path) -> None:
    assert status(copy, ATEN_CPU_CAPABILITY="default")[:2] == (1, "partial")


def test_without_its_graphs_nothing_hits(compiler: Inductor, copy: Path) -> None:
    shutil.rmtree(copy / "cache/fxgraph")
    code, state, reasons = status(copy)
    assert (code, state, reasons[0]) == (1, "miss", "none of the FX graphs of [TIME] is there any more")
    counted = compiler.run(copy / "cache", "double")
    assert "fxgraph_cache_hit" not in counted
    assert counted["fxgraph_cache_miss"] > 0


def test_a_restored_snapshot_hits(compiler: Inductor, copy: Path) -> None:
    before = files(copy / "cache")
    shutil.rmtree(copy / "cache")
    assert status(copy)[:2] == (1, "cold")
    done = cache_command("restore", "two", folder=copy)
    assert (done.code, done.err) == (0, "")
    assert files(copy / "cache") == before
    assert status(copy)[:2] == (3, "hit")
    assert compiler.run(copy / "cache", "double", "shift") == dict.fromkeys(HIT, 2)
    assert files(copy / "cache") == before


def test_torchs_own_blob_both_ways(compiler: Inductor, copy: Path, tmp_path: Path) -> None:
    exported, stored = tmp_path / "ours.bin", tmp_path / "theirs.bin"
    assert cache_command("export", str(exported), folder=copy).code == 0
    # The blob holds graphs alone; the kernels are left, so that nothing has to be compiled for this.
    for folder in ("fxgraph", "aotautograd"):
        shutil.rmtree(copy / "cache" / folder)
    assert compiler.run(copy / "cache", "double", load=str(exported)) == HIT
    assert compiler.run(copy / "cache", "double", store=str(stored)) == HIT
    for folder in ("fxgraph", "aotautograd"):
        shutil.rmtree(copy / "cache" / folder)
    imported = cache_command("import", str(stored), folder=copy)
    assert imported.out == f"Imported {filtered(stored, copy)} into [TMP]/cache: 2 added\n"
    assert compiler.run(copy / "cache", "double") == HIT


def filtered(path: Path, folder: Path) -> str:
    return str(path).replace(str(folder), "[TMP]")


def test_eight_processes_at_once_see_no_torn_entry(compiler: Inductor, copy: Path) -> None:
    shutil.rmtree(copy / "cache")
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(copy / "cache"), "ENVDOCTOR_CACHE_STORE": str(copy / "store")}
    compiler.ask(copy / "cache", "double", "shift", processes=3)
    commands = [("restore", "two")] * 3 + [("status", "--json")] * 2
    running = [
        subprocess.Popen(
            [*COMMAND, "cache", *words, *VENV],
            env=environment(copy, variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in commands
    ]
    finished = [(process.communicate(timeout=300), process.returncode) for process in running]
    compiled = compiler.answers()
    assert [error for (_, error), _ in finished] == [""] * 5
    assert [code for _, code in finished[:3]] == [0, 0, 0]
    assert [json.loads(out)["damaged"] for (out, _), _ in finished[3:]] == [[], []]
    assert [answer.get("error") for answer in compiled] == [None] * 3
    assert status(copy)[:2] == (3, "hit")
    assert list((copy / "cache/.envdoctor").glob("staging-*")) == []
    assert compiler.run(copy / "cache", "double", "shift") == dict.fromkeys(HIT, 2)


WARM_UP = """
import json, pathlib, sys, time
sys.path.insert(0, sys.argv[2])
from tests.factories.make_cache import filled
folder = pathlib.Path(sys.argv[1])
cold = not folder.exists()
if cold:
    filled(folder)
    time.sleep(0.5)
print(json.dumps({"inductor": {"fxgraph_cache_miss" if cold else "fxgraph_cache_hit": 1}}))
"""


def test_a_proven_warm_up_becomes_the_profiles_history(tmp_path: Path) -> None:
    (tmp_path / "warm.py").write_text(WARM_UP)
    words = [sys.executable, str(tmp_path / "warm.py"), str(tmp_path / "cache"), str(ROOT)]
    expects = "cache_minimum_entries = 100"
    locked = [make_wheel(tmp_path / "wheels", "demo", "1.0")]
    make_profile(tmp_path, "good", locked, lines=["[compile]", f"warm_command = {json.dumps(words)}", expects])
    done = cache_command("warm", "--profile", "good", folder=tmp_path)
    assert done.code == 0, done.err
    first, second, key = done.out.splitlines()
    assert re.fullmatch(
        r"The cache of good is warm: the second run was served 1 graphs and compiled none; compiling took \d+ s", first
    )
    assert second.endswith(
        ": 1 autograd graph, 1 autotune result, 1 c++ kernel, 1 fx graph, 1 python wrapper, 1 triton kernel"
    )
    again = cache_command("warm", "--profile", "good", "--json", folder=tmp_path)
    proof = json.loads(again.out)
    jsonschema.validate(proof, closed(json.loads(schemas.read("cache-warm"))))
    assert (proof["was_cold"], proof["compile_seconds"], proof["runs"][1]["compiled"]) == (False, None, 0)
    # The manifest was made with the torch of the venv asked, so its whole configuration is in it.
    kept = json.loads((tmp_path / "store/warm/good/manifest.json").read_text())
    names = {part["name"] for part in kept["key"]}
    assert {"config.inductor.max_autotune", "config.functorch.bundled_autograd_cache"} <= names
    assert key == f"key {json.loads(cache_command('status', '--json', folder=tmp_path).out)['key_digest']}"
    live = cache_command("status", "--json", "--live", "--profile", "good", folder=tmp_path)
    assert (live.code, json.loads(live.out)["state"]) == (0, "hit")
    # The cache goes: the profile still knows what it costs.
    shutil.rmtree(tmp_path / "cache")
    variables = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"), "ENVDOCTOR_CACHE_STORE": str(tmp_path / "store")}
    report = run_envdoctor("check", "--json", "--profile", "good", sys.prefix, folder=tmp_path, extra=variables)
    (cold,) = (found for found in json.loads(report.out)["findings"] if found["code"] == "ED501")
    assert re.fullmatch(
        r"the compile cache is cold: it holds no compiled graph or kernel, and the profile expects 100 files; "
        r"expect about \S+ (?:minutes|seconds?) of compilation",
        cold["title"],
    )
    assert re.fullmatch(r"its warm-up of \[TIME\] took \d+ s to compile", cold["evidence"][-1])
