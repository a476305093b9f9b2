"""Whether a cache will hit, and the words for why not."""

import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from envdoctor.cache import will_hit
from envdoctor.cache.key_parts import KeyPart
from envdoctor.cache.manifest import Manifest
from envdoctor.cache.status import Status, examine
from envdoctor.model.profile import CompileWanted
from envdoctor.probes.caches.compile_caches import CompileCache
from tests.factories.make_cache import KEY, cpp_kernel, filled, graph, manifest_of, write

TRUSTED = frozenset({0, os.geteuid()})


def cache(path: Path, **changes: Any) -> CompileCache:
    base = CompileCache(
        kind="inductor",
        path=str(path),
        found_via="TORCHINDUCTOR_CACHE_DIR",
        present=path.is_dir(),
        entries=0,
        bytes=0,
        counted_all=True,
        oldest=0,
        newest=0,
        filesystem="ext4",
        writable=True,
        owner_uid=1000,
    )
    return replace(base, **changes)


def look(path: Path, manifests: Sequence[Manifest] = (), key: Sequence[KeyPart] = KEY, **changes: Any) -> Status:
    environ = changes.pop("environ", {})
    wanted = changes.pop("wanted", None)
    return examine([cache(path, **changes)], manifests, key, trusted=TRUSTED, environ=environ, wanted=wanted)


def changed(name: str, value: str, *, known: bool = True) -> tuple[KeyPart, ...]:
    return tuple(KeyPart(name=part.name, value=value, known=known) if part.name == name else part for part in KEY)


def test_cold(tmp_path: Path) -> None:
    found = look(tmp_path / "absent")
    assert (found.state, found.reasons) == ("cold", ("no file is in any cache folder: everything will be compiled",))
    cpp_kernel(tmp_path)
    assert look(tmp_path).reasons == ("no compiled graph is in any cache folder: everything will be compiled",)


def test_unknown_without_a_manifest(tmp_path: Path) -> None:
    filled(tmp_path)
    found = look(tmp_path)
    assert (found.state, found.reasons, found.match) == (
        "unknown",
        ("nothing here says which environment filled the cache",),
        None,
    )


def test_hit(tmp_path: Path) -> None:
    manifest = manifest_of(filled(tmp_path))
    found = look(tmp_path, [manifest])
    assert (found.state, found.reasons) == (
        "hit",
        (
            f"every part of the key is what it was on {manifest.made_at}, and so is every file, by its hash",
            "that this environment filled it is what made says, and was not measured: `cache save` takes your word "
            "for it",
        ),
    )
    warmed = look(tmp_path, [replace(manifest, cold_seconds=12.5)])
    assert (warmed.state, warmed.reasons) == ("hit", found.reasons[:1])
    assert found.match is not None
    assert found.match.manifest is manifest


@pytest.mark.parametrize(
    ("name", "value", "state", "reason"),
    [
        (
            "torch.version",
            "2.11.0+cpu",
            "miss",
            "torch.version: was `2.13.0+cpu`, is `2.11.0+cpu`; fx graph and autograd graph entries miss",
        ),
        (
            "gpu.name",
            "",
            "miss",
            "gpu.name: was `NVIDIA H200`, is not set; fx graph and autograd graph entries miss",
        ),
        ("cpu.isa", "avx512f", "partial", "cpu.isa: was `avx2`, is `avx512f`; c++ kernel entries miss"),
        ("venv.prefix", "/other", "partial", "venv.prefix: was `/venv`, is `/other`; c++ kernel entries miss"),
    ],
)
def test_the_part_that_differs_is_named(tmp_path: Path, name: str, value: str, state: str, reason: str) -> None:
    found = look(tmp_path, [manifest_of(filled(tmp_path))], changed(name, value))
    assert (found.state, found.reasons) == (state, (reason,))


def test_a_part_that_reaches_no_entry_there_is_does_not_matter(tmp_path: Path) -> None:
    root = filled(tmp_path)
    for path in tmp_path.glob("xy/cxyz0*"):
        path.unlink()
    assert look(tmp_path, [manifest_of(root)], changed("venv.prefix", "/other")).state == "hit"


def test_another_cpu_hits_but_is_named(tmp_path: Path) -> None:
    manifest = manifest_of(filled(tmp_path))
    manifest = replace(manifest, key=(*KEY, KeyPart(name="cpu.model", value="Xeon")))
    found = look(tmp_path, [manifest], (*KEY, KeyPart(name="cpu.model", value="EPYC")))
    assert (found.state, found.reasons) == (
        "partial",
        ("cpu.model: was `Xeon`, is `EPYC`; C++ kernels hit, but were built for it",),
    )


def test_a_number_of_threads_seen_from_outside_is_no_proof(tmp_path: Path) -> None:
    threads = [(*KEY, KeyPart(name="cpu.threads", value=value)) for value in ("1", "2")]
    found = look(tmp_path, [replace(manifest_of(filled(tmp_path)), key=threads[0])], threads[1])
    assert (found.state, found.reasons) == (
        "unknown",
        (
            "cpu.threads: was `1`, is `2`; fx graph and autograd graph entries miss, "
            "unless the training code sets it itself",
        ),
    )
    assert found.match is not None
    assert found.key_digest == found.match.manifest.key_digest


def test_an_unread_part_is_could_not_tell(tmp_path: Path) -> None:
    found = look(tmp_path, [manifest_of(filled(tmp_path))], changed("gpu.name", "NVML was not asked", known=False))
    assert (found.state, found.reasons) == ("unknown", ("gpu.name could not be determined: NVML was not asked",))


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("TORCHINDUCTOR_FORCE_DISABLE_CACHES", "1", "every cache of inductor"),
        ("TORCHINDUCTOR_FX_GRAPH_CACHE", "0", "the cache of FX graphs"),
        ("TORCHINDUCTOR_AUTOGRAD_CACHE", "0", "the cache of autograd graphs"),
        ("TRITON_ALWAYS_COMPILE", "1", "the cache of Triton kernels"),
    ],
)
def test_a_cache_that_is_switched_off_never_hits(tmp_path: Path, name: str, value: str, what: str) -> None:
    manifest = manifest_of(filled(tmp_path))
    found = look(tmp_path, [manifest], environ={name: value})
    assert (found.state, found.reasons) == ("miss", (f"{name}={value} switches {what} off",))
    assert look(tmp_path, [manifest], environ={name: ""}).state == "hit"


def test_files_that_are_gone_and_broken(tmp_path: Path) -> None:
    manifest = manifest_of(filled(tmp_path))
    (tmp_path / "xy/csome.best_config").unlink()
    (tmp_path / "triton/0/KERNELHASH/sum.ttir").write_bytes(b"")
    found = look(tmp_path, [manifest])
    assert (found.state, found.reasons) == (
        "partial",
        (f"1 of 10 files are gone since {manifest.made_at}", "1 damaged entries will be compiled again"),
    )
    (damaged,) = found.damaged
    assert (damaged.entry, damaged.reason, len(damaged.files)) == ("triton/0/KERNELHASH", "sum.ttir: empty", 4)


@pytest.mark.parametrize(
    ("name", "state", "reason"),
    [
        ("xy/cxyz0.main.so", "miss", "1 damaged kernel would be loaded as found, and end the launch: "),
        ("triton/0/KERNELHASH/sum.ttir", "partial", "1 damaged entries will be compiled again"),
    ],
)
def test_a_file_that_was_changed_at_the_same_size(tmp_path: Path, name: str, state: str, reason: str) -> None:
    manifest = manifest_of(filled(tmp_path))
    path = tmp_path / name
    content = path.read_bytes()
    path.write_bytes(content[:-4] + bytes(byte ^ 1 for byte in content[-4:]))
    found = look(tmp_path, [manifest])
    assert found.state == state
    assert found.reasons[0].startswith(reason)
    (damaged,) = found.damaged
    assert damaged.reason == f"{path.name}: not the content that made lists"


def test_more_than_is_hashed_is_told_by_size_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = manifest_of(filled(tmp_path))
    monkeypatch.setattr(will_hit, "_MOST_HASHED", 1000)
    (reason, _) = look(tmp_path, [manifest]).reasons
    assert reason.startswith(
        f"every part of the key is what it was on {manifest.made_at}, and so is every file, by its "
    )
    assert reason.endswith("by its hash, but for 0 MB by size only")


@pytest.mark.parametrize(
    ("changes", "who"),
    [
        ({"others": "belongs to user 7"}, "belongs to user 7"),
        ({}, "holds xy/cxyz0.main.so, which can be written by everybody"),
    ],
)
def test_a_cache_that_somebody_else_can_fill_is_no_hit(tmp_path: Path, changes: dict[str, Any], who: str) -> None:
    manifest = manifest_of(filled(tmp_path))
    if not changes:
        # Beyond the files that the probe looks at, too: each of those that would be loaded is.
        (tmp_path / "xy/cxyz0.main.so").chmod(0o666)
    found = look(tmp_path, [manifest], **changes)
    assert (found.state, found.reasons) == ("unknown", (f"{tmp_path} {who}: torch runs the code that is in it",))
    assert found.roots[0].warnings == ((f"{who}: torch runs the code that is in it",) if changes else ())


def test_without_a_compiler_no_kernel_is_loaded(tmp_path: Path) -> None:
    manifest = manifest_of(filled(tmp_path))
    manifest = replace(manifest, key=(*KEY, KeyPart(name="cpp.compiler", value="sha256 aa")))
    found = look(tmp_path, [manifest], (*KEY, KeyPart(name="cpp.compiler", value="")))
    assert (found.state, found.reasons) == (
        "miss",
        ("no C++ compiler is on PATH ($CXX, g++): torch asks for one before it loads a C++ kernel, and ends",),
    )
    found = look(tmp_path, [manifest], (*KEY, KeyPart(name="cpp.compiler", value="sha256 bb")))
    assert (found.state, found.reasons) == (
        "partial",
        ("cpp.compiler: was `sha256 aa`, is `sha256 bb`; c++ kernel entries miss",),
    )
    # A manifest of before 0.3.0 says nothing of it.
    assert (
        look(tmp_path, [manifest_of(filled(tmp_path))], (*KEY, KeyPart(name="cpp.compiler", value="x"))).state == "hit"
    )


def test_without_its_graphs_nothing_hits(tmp_path: Path) -> None:
    manifest = manifest_of(filled(tmp_path))
    shutil.rmtree(tmp_path / "fxgraph")
    found = look(tmp_path, [manifest])
    assert (found.state, found.reasons[0]) == ("miss", f"none of the FX graphs of {manifest.made_at} is there any more")


def test_of_several_manifests_the_one_that_fits_is_compared(tmp_path: Path) -> None:
    fitting = manifest_of(filled(tmp_path), name="fitting")
    other = replace(fitting, name="other", key=changed("torch.version", "2.9.0"), made_at="2030-01-01T00:00:00Z")
    found = look(tmp_path, [other, fitting])
    assert found.match is not None
    assert (found.state, found.match.manifest.name) == ("hit", "fitting")


@pytest.mark.parametrize(
    ("changes", "warning"),
    [
        ({"writable": False}, "not writable: nothing compiled will be kept"),
        ({"others": "belongs to user 7"}, "belongs to user 7: torch runs the code that is in it"),
        ({"filesystem": "tmpfs"}, "on tmpfs: lost at the next reboot"),
        ({"filesystem": "nfs4"}, "on nfs4: do not share it between nodes while they compile"),
        (
            {"filesystem": "nfs4", "environ": {"NNODES": "2"}},
            "on nfs4: ranks of several nodes write the same files, expect stale file handles",
        ),
    ],
)
def test_a_bad_place_is_said(tmp_path: Path, changes: dict[str, Any], warning: str) -> None:
    graph(tmp_path)
    (root,) = look(tmp_path, **changes).roots
    assert root.warnings == (warning,)


def test_a_good_place_has_no_warning(tmp_path: Path) -> None:
    graph(tmp_path)
    (root,) = look(tmp_path).roots
    assert (root.warnings, root.files, dict(root.entries)) == ((), 1, {"fx graph": 1})


def test_what_the_profile_expects(tmp_path: Path) -> None:
    write(tmp_path / "fxgraph/ab/fk/x", b"x" * 2_000_000)
    wanted = CompileWanted(
        cache_minimum_entries=5,
        cache_bytes=(300_000_000, 400_000_000),
        cache_location="/data/cache",
        cache_key="0123456789abcdef",
    )
    found = look(tmp_path, wanted=wanted)
    assert found.warnings == (
        "1 files, the profile expects at least 5",
        "2 MB, the profile expects 300 to 400 MB",
        f"is at {tmp_path}, the profile wants it at /data/cache",
        f"this environment's key is {found.key_digest}, the profile's cache has 0123456789abcdef",
    )
    met = CompileWanted(cache_minimum_entries=1, cache_bytes=(1, 3_000_000), cache_location=str(tmp_path))
    assert look(tmp_path, wanted=replace(met, cache_key=found.key_digest)).warnings == ()
