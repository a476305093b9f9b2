"""Telling a whole file from a broken one by the file alone."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from envdoctor.cache.layout import Root, files
from envdoctor.probes.caches.entry_damage import content_name, damage
from tests.factories.make_cache import cpp_kernel, filled, graph, kernel, shared_object, wrapper, write


def problems(folder: Path) -> dict[str, str]:
    root = Root(kind="inductor", path=folder, found_via="default")
    found = {file.path: damage(folder / file.path, file.kind) for file in files([root])}
    return {path: problem for path, problem in found.items() if problem}


def test_a_whole_cache_has_no_damage(tmp_path: Path) -> None:
    filled(tmp_path)
    assert problems(tmp_path) == {}


def test_torch_names_a_content_so() -> None:
    # sha256_hash(b"") of torch/_inductor/codecache.py
    assert content_name(b"") == "4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbk"


@pytest.mark.parametrize("cut", [lambda data: data[:-1], lambda data: data[:0], lambda data: b"\0" * len(data)])
def test_a_graph_is_its_name(tmp_path: Path, cut: Callable[[bytes], bytes]) -> None:
    path = graph(tmp_path, b"pickled graph.")
    path.write_bytes(cut(path.read_bytes()))
    (problem,) = problems(tmp_path).values()
    assert problem == ("its content is not what its name says" if path.stat().st_size else "empty")


@pytest.mark.parametrize("kept", range(0, len(shared_object()), 997))
def test_a_cut_object_is_found_wherever_it_is_cut(tmp_path: Path, kept: int) -> None:
    path = cpp_kernel(tmp_path)
    path.write_bytes(shared_object()[:kept])
    assert list(problems(tmp_path)) == ["xy/cxyz0.main.so"]


def test_a_cubin_and_a_group_file(tmp_path: Path) -> None:
    at = kernel(tmp_path)
    (at / "sum.cubin").write_bytes(shared_object()[:-8])
    (at / "__grp__sum.json").write_text('{"child_paths": {"sum.')
    (at / "sum.ttir").write_bytes(b"")
    size = len(shared_object())
    assert problems(tmp_path) == {
        "triton/0/KERNELHASH/__grp__sum.json": (
            "no JSON document: Unterminated string starting at: line 1 column 18 (char 17)"
        ),
        "triton/0/KERNELHASH/sum.cubin": f"cut off: {size - 8} of at least {size} bytes",
        "triton/0/KERNELHASH/sum.ttir": "empty",
    }


def test_a_wrapper_with_another_name_is_parsed(tmp_path: Path) -> None:
    whole = wrapper(tmp_path)
    write(tmp_path / "ab/cother.py", whole.read_bytes())
    assert problems(tmp_path) == {}
    write(tmp_path / "ab/cother.py", b"def call(args")
    assert problems(tmp_path) == {"ab/cother.py": "no Python module: '(' was never closed (<unknown>, line 1)"}


def test_an_object_that_is_none(tmp_path: Path) -> None:
    write(tmp_path / "ab/cab.main.so", b"not an object")
    assert problems(tmp_path) == {"ab/cab.main.so": "no ELF file"}


def test_an_empty_log_is_no_damage(tmp_path: Path) -> None:
    assert damage(write(tmp_path / "flashinfer_jit.log", b""), "extension") == ""
    assert damage(write(tmp_path / "kernel.so", b""), "extension") == "empty"


def test_a_file_that_vanished_is_not_damaged(tmp_path: Path) -> None:
    path = graph(tmp_path)
    (file,) = files([Root(kind="inductor", path=tmp_path, found_via="default")])
    path.unlink()
    assert damage(tmp_path / file.path, file.kind) == ""


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("k.json", b"[" * 100_000, "no JSON document: nested too deeply"),
        ("cx.py", b"-" * 500_000, "no Python module: nested too deeply"),
        ("cx.py", b"a+" * 250_000 + b"a", "no Python module: nested too deeply"),
    ],
)
def test_what_is_nested_too_deeply_is_damaged_and_ends_nothing(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    assert damage(write(tmp_path / name, content), "other") == problem


def test_a_source_that_takes_all_memory_to_parse_is_not_judged(tmp_path: Path) -> None:
    assert damage(write(tmp_path / "cx.py", b"a;" * 400_000), "python wrapper") == ""


@pytest.mark.parametrize(("name", "kind"), [("cx.py", "python wrapper"), ("k.json", "other"), ("abc", "fx graph")])
def test_a_file_larger_than_any_compiler_writes_is_not_read(tmp_path: Path, name: str, kind: str) -> None:
    path = tmp_path / name
    with path.open("wb") as file:
        file.truncate(300 << 30)
    told = damage(path, kind)
    assert told in (
        "322122547200 bytes, more than a graph can have",
        "cannot be read: 322122547200 bytes, more than the 67108864 it can hold",
    )


@pytest.mark.parametrize(("name", "kind"), [("cx.py", "python wrapper"), ("k.so", "c++ kernel"), ("abc", "fx graph")])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str, kind: str) -> None:
    os.mkfifo(tmp_path / name)
    assert damage(tmp_path / name, kind) in ("empty", "cannot be read: not a regular file")
