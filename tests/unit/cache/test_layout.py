"""What lies where in a cache."""

from pathlib import Path

import pytest

from envdoctor.cache.layout import CacheFile, Root, count_entries, files, install_order, roots
from envdoctor.catalog.cache_kinds import entry_of, kind_of
from envdoctor.errors import CacheError
from tests.factories.make_cache import filled, write
from tests.factories.make_reading import bare_host


@pytest.mark.parametrize(
    ("root", "path", "kind", "entry"),
    [
        ("inductor", "fxgraph/ab/fabc/hash", "fx graph", "fxgraph/ab/fabc/hash"),
        ("inductor", "aotautograd/akey/hash", "autograd graph", "aotautograd/akey/hash"),
        ("inductor", "triton/0/HASH/sum.cubin", "triton kernel", "triton/0/HASH"),
        ("inductor", "triton/0/HASH/__grp__sum.json", "triton kernel", "triton/0/HASH"),
        ("inductor", "2l/c2lxyz.main.so", "c++ kernel", "2l/c2lxyz"),
        ("inductor", "2l/c2lxyz.main.cpp", "c++ kernel", "2l/c2lxyz"),
        ("inductor", "24/c244.so", "compiler test", "24/c244"),
        ("inductor", "b7/cb7.py", "python wrapper", "b7/cb7"),
        ("inductor", "b7/cb7.best_config", "autotune result", "b7/cb7.best_config"),
        ("inductor", "cache/systemhash", "autotune result", "cache/systemhash"),
        ("inductor", "dynamo/code_state.pkl", "other", "dynamo/code_state.pkl"),
        ("triton", "HASH/cuda_utils.so", "triton kernel", "HASH"),
        ("torch_extensions", "py311_cu128/fused/fused.so", "extension", "py311_cu128/fused"),
        ("flashinfer", "0.5.0/90a/cached_ops/x/x.so", "extension", "0.5.0/90a"),
        ("cuda", "2/f/0a1b", "cuda binary", "2/f/0a1b"),
    ],
)
def test_kind_and_entry_of_a_path(root: str, path: str, kind: str, entry: str) -> None:
    assert (kind_of(root, path), entry_of(root, path)) == (kind, entry)


def test_locks_temporaries_links_and_our_own_files_are_left_out(tmp_path: Path) -> None:
    root = filled(tmp_path)
    expected = {file.path for file in files([root])}
    for name in (
        "locks/a.lock",
        "ab/.123.456.tmp",
        "triton/0/H/tmp.pid_3_x/a.cubin",
        ".envdoctor/two.json",
        "ab/x.lock",
    ):
        write(tmp_path / name, b"x")
    (tmp_path / "ab/link.py").symlink_to("/etc/passwd")
    (tmp_path / "elsewhere").symlink_to("/usr")
    assert {file.path for file in files([root])} == expected
    assert len(expected) == 10


def test_a_root_inside_another_is_walked_once(tmp_path: Path) -> None:
    inductor = filled(tmp_path)
    triton = Root(kind="triton", path=tmp_path / "triton", found_via="TRITON_CACHE_DIR")
    write(tmp_path / "triton/HASH/a.cubin", b"x")
    found = list(files([inductor, triton]))
    assert len({(file.root, file.path) for file in found}) == len(found)
    assert {file.root for file in found if "cubin" in file.path} == {"triton"}


def test_an_unreadable_folder_is_an_error_and_not_an_empty_cache(tmp_path: Path) -> None:
    (tmp_path / "ab").write_bytes(b"")
    root = Root(kind="inductor", path=tmp_path / "ab", found_via="default")
    with pytest.raises(CacheError) as caught:
        list(files([root]))
    assert caught.value.message == f"{tmp_path}/ab: Not a directory"


def test_whatever_refers_to_others_is_installed_after_them(tmp_path: Path) -> None:
    kinds = [(file.kind, file.path.rpartition("/")[2][:7]) for file in install_order(files([filled(tmp_path)]))]
    assert kinds[-3] == ("triton kernel", "__grp__")
    assert [kind for kind, _ in kinds[-2:]] == ["fx graph", "autograd graph"]


def test_entries_are_counted_and_not_files(tmp_path: Path) -> None:
    assert count_entries(files([filled(tmp_path)])) == {
        "autograd graph": 1,
        "autotune result": 1,
        "c++ kernel": 1,
        "fx graph": 1,
        "python wrapper": 1,
        "triton kernel": 1,
    }
    assert count_entries([]) == {}


@pytest.mark.parametrize(
    ("environ", "inductor", "triton"),
    [
        ({}, "[HOME]/tmp/torchinductor_me", "[HOME]/.triton/cache"),
        ({"TORCHINDUCTOR_CACHE_DIR": "/data/inductor"}, "/data/inductor", "[HOME]/.triton/cache"),
        ({"TORCHINDUCTOR_CACHE_DIR": "relative"}, "[HOME]/relative", "[HOME]/.triton/cache"),
        ({"TRITON_CACHE_DIR": "/data/triton"}, "[HOME]/tmp/torchinductor_me", "/data/triton"),
        ({"TRITON_HOME": "/data"}, "[HOME]/tmp/torchinductor_me", "/data/.triton/cache"),
    ],
)
def test_folders_are_those_the_compilers_use(
    tmp_path: Path, environ: dict[str, str], inductor: str, triton: str
) -> None:
    found = {
        root.kind: str(root.path).replace(str(tmp_path), "[HOME]") for root in roots(bare_host(tmp_path, **environ))
    }
    assert (found["inductor"], found["triton"]) == (inductor, triton)


def test_a_file_of_a_listing_knows_its_kind() -> None:
    file = CacheFile(root="inductor", path="2l/cx.main.so", size=1, modified=0, mode=0o755)
    assert (file.kind, file.entry) == ("c++ kernel", "2l/cx")
