"""torch's and Triton's keys without importing them, against pkgutil itself."""

import hashlib
import pkgutil
import sys
from pathlib import Path

import pytest

from envdoctor.cache.source_keys import (
    Suffixes,
    _iter_modules,
    _torch_modules,
    _walk_packages,
    function_digest,
    torch_key,
    triton_key,
)
from envdoctor.errors import ProbeError
from tests.factories.make_cache import write

HERE = Suffixes.of(f"python{sys.version_info[0]}.{sys.version_info[1]}", "x86_64")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a package with everything a walk can stumble over."""
    tag = f"cpython-{sys.version_info[0]}{sys.version_info[1]}-x86_64-linux-gnu"
    for name in (
        "__init__.py",
        "_C/__init__.pyi",
        f"_C.{tag}.so",
        "version.py",
        "both.py",
        "both/__init__.py",
        "both/inner.py",
        "nested/__init__.py",
        "nested/deeper/__init__.py",
        "nested/deeper/leaf.py",
        "nested/a.abi3.so",
        "data/no_package.py",
        "dotted.name.py",
        "folder.with.dot/__init__.py",
        "compiled/__init__.so",
        "lib/libx.so.1",
        "zz.pyc",
        "README.md",
        f"__pycache__/version.cpython-{sys.version_info[0]}{sys.version_info[1]}.pyc",
    ):
        write(tmp_path / "pack" / name, name.encode())
    return tmp_path / "pack"


def by_pkgutil(roots: list[str], prefix: str) -> list[tuple[str, str]]:
    """Return what build_code_hash of torch/_inductor/codecache.py hashes, by the interpreter's own machinery."""
    found = []
    for lib in sorted(pkgutil.iter_modules(roots, prefix), key=lambda lib: lib.name):
        spec = lib.module_finder.find_spec(lib.name, None)  # type: ignore[call-arg]
        assert spec is not None
        assert spec.origin is not None
        found.append((spec.name, spec.origin))
        if lib.ispkg:
            found += by_pkgutil(list(spec.submodule_search_locations or ()), f"{spec.name}.")
    return found


def test_the_walk_is_pkgutils(package: Path) -> None:
    ours = [(name, str(path)) for name, path in _torch_modules(package, "", HERE)]
    assert ours == by_pkgutil([str(package)], "")
    assert len(ours) == 10
    assert list(_iter_modules(package, HERE)) == [
        (info.name, info.ispkg) for info in pkgutil.iter_modules([str(package)])
    ]


def test_another_interpreters_extensions_are_not_found(package: Path) -> None:
    other = Suffixes.of("python3.9", "x86_64")
    tag = f"_C.cpython-{sys.version_info[0]}{sys.version_info[1]}-x86_64-linux-gnu"
    names = [name for name, _ in _iter_modules(package, other)]
    # A bare ".so" is every interpreter's suffix, and a name with dots in it is not a module.
    assert tag not in names
    assert "_C" not in names


def test_suffixes_of_a_free_threaded_interpreter() -> None:
    assert Suffixes.of("python3.13t", "aarch64").extensions == (
        ".cpython-313t-aarch64-linux-gnu.so",
        ".abi3.so",
        ".so",
    )


KNOWN_TORCH = """
def build_code_hash(
    roots: list[str] | None, prefix: str, hasher: hashlib._Hash
) -> None:
    for lib in sorted(pkgutil.iter_modules(roots, prefix), key=lambda x: x.name):
        pass
"""


def test_an_unknown_torch_is_not_guessed_at(package: Path) -> None:
    source = write(package / "_inductor/codecache.py", KNOWN_TORCH.encode())
    found = function_digest(KNOWN_TORCH.encode(), ("build_code_hash", "torch_key"))
    with pytest.raises(ProbeError) as caught:
        torch_key(package, "9.9.9", HERE)
    assert caught.value.message == (
        f"{source}: build_code_hash and torch_key are not the functions this version knows ({found})"
    )


def test_a_digest_of_a_function_leaves_layout_out() -> None:
    plain = b"def f(x):\n    return x\n\n\ndef g():\n    pass\n"
    other = b"import os\n\n\n@decorated\ndef f(x):\n\n    # a comment\n    return x\n\n\ndef g():\n    return 2\n"
    assert function_digest(plain, ("f",)) == function_digest(other, ("f",))
    assert function_digest(plain, ("f", "g")) != function_digest(other, ("f", "g"))


def test_an_absent_triton_is_an_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ProbeError) as caught:
        triton_key(tmp_path / "triton", "3.6.0", HERE)
    assert caught.value.message == f"{tmp_path}/triton/runtime/cache.py: No such file or directory"


def test_the_walk_of_triton_is_pkgutils(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # walk_packages imports the packages it descends into, so this tree must be importable.
    (package / "compiled/__init__.so").unlink()
    for path in package.rglob("*.py"):
        path.write_text("")
    monkeypatch.syspath_prepend(package.parent)
    expected = [
        info.module_finder.find_spec(info.name, None).origin  # type: ignore[call-arg, union-attr]
        for info in pkgutil.walk_packages([str(package)], prefix="pack.")
    ]
    assert [str(path) for path in _walk_packages(package, HERE)] == expected
    hashes = [hashlib.sha256(Path(path).read_bytes()).hexdigest() for path in expected if path]
    assert len(hashes) == 9
