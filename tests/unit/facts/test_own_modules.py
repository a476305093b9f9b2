"""Our modules found without a search are the ones that Python's own finder finds, with the same code."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories.run_envdoctor import ROOT

# Every module of ours, as Python's own finder sees it and as ours does; `facts` is a package, the rest what it holds.
_COMPARED = """
import importlib.util, json, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import envdoctor
from envdoctor.facts.own_modules import _Finder, found_quickly

names = [found.name for found in pkgutil.walk_packages(envdoctor.__path__, "envdoctor.")]
names += ["envdoctor.nothing", "envdoctor.facts.nothing"]
told = []
for name in names:
    path = importlib.util.find_spec(name.rpartition(".")[0]).submodule_search_locations
    plain = importlib.machinery.PathFinder.find_spec(name, path)
    quick = _Finder.find_spec(name, path)
    if plain is None or quick is None:
        assert plain is quick, name
        continue
    for said in ("name", "origin", "cached", "has_location", "parent", "submodule_search_locations"):
        assert getattr(plain, said) == getattr(quick, said), (name, said)
    assert plain.loader.get_code(name) == quick.loader.get_code(name), name
    assert plain.loader.get_source(name) == quick.loader.get_source(name)
    told.append(name)
before = list(sys.meta_path)
with found_quickly():
    assert sys.meta_path == [_Finder, *before]
    with found_quickly():
        pass
    assert sys.meta_path == [_Finder, *before]
assert sys.meta_path == before
print(len(told))
"""
_LOADED = """
import sys
sys.path.insert(0, sys.argv[1])
from envdoctor.facts.own_modules import quickly
quickly()
from envdoctor import thing
print(thing.SAID, thing.where.__code__.co_filename, type(thing.__loader__).__name__)
"""


def test_the_same_modules_with_the_same_code() -> None:
    done = subprocess.run([sys.executable, "-c", _COMPARED, ROOT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) > 500


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Make a package of the same name with the finder and one module."""
    facts = tmp_path / "root/envdoctor/facts"
    facts.mkdir(parents=True)
    for folder in (facts, facts.parent):
        (folder / "__init__.py").write_text("")
    shutil.copy(ROOT / "envdoctor/facts/own_modules.py", facts)
    return facts.parent


def loaded(package: Path, *options: str, **variables: str) -> list[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | variables
    done = subprocess.run(
        [sys.executable, *options, "-c", _LOADED, package.parent],
        capture_output=True,
        text=True,
        env=environ,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def write(package: Path, said: str, at: int = 1_700_000_000) -> Path:
    path = package / "thing.py"
    path.write_text(f"SAID = {said!r}\n\n\ndef where():\n    pass\n")
    os.utime(path, (at, at))
    return path


def test_bytecode_is_written_believed_and_made_again(package: Path) -> None:
    path = write(package, "one")
    assert loaded(package) == ["one", str(path), "_Loader"]
    # The same time and size: Python believes the bytecode, and so does this.
    write(package, "two")
    assert loaded(package)[0] == "one"
    write(package, "two", at=1_700_000_001)
    assert loaded(package)[0] == "two"


def test_damaged_bytecode_is_judged_as_python_judges_it(package: Path) -> None:
    write(package, "one")
    loaded(package)
    (compiled,) = (package / "__pycache__").glob("thing.*.pyc")
    whole = compiled.read_bytes()
    plain = _LOADED.replace("\nquickly()", "")
    for damaged in (b"", whole[:15], whole[:40], b"\0" * len(whole), whole[:16] + b"N", whole[:16] + b"i\1\0\0\0"):
        said = []
        for code in (plain, _LOADED):
            compiled.write_bytes(damaged)
            done = subprocess.run(
                [sys.executable, "-B", "-c", code, package.parent], capture_output=True, text=True, check=False
            )
            said.append((done.returncode, done.stdout.split()[:2], done.stderr.splitlines()[-1:]))
        assert said[0] == said[1], damaged


def test_bytecode_of_a_moved_package_names_its_new_files(package: Path) -> None:
    write(package, "one")
    loaded(package)
    moved = package.parent.rename(package.parent.with_name("moved")) / "envdoctor"
    assert loaded(moved)[1] == str(moved / "thing.py")


@pytest.mark.parametrize(("options", "variables"), [(("-O",), {}), ((), {"PYTHONPYCACHEPREFIX": "elsewhere"})])
def test_where_bytecode_is_kept_otherwise_python_finds_them(
    package: Path, tmp_path: Path, options: tuple[str, ...], variables: dict[str, str]
) -> None:
    write(package, "one")
    told = {name: str(tmp_path / value) for name, value in variables.items()}
    assert loaded(package, *options, **told)[2] == "SourceFileLoader"


def test_bytecode_checked_by_hash_is_left_to_python(package: Path) -> None:
    write(package, "one")
    subprocess.run(
        [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash", package], check=True
    )
    write(package, "two")
    assert loaded(package)[0] == "two"


def test_no_module_stands_beside_a_package_of_its_name() -> None:
    """Python takes the package of the two, this finder the module: there must be no such pair."""
    modules = [path for path in (ROOT / "envdoctor").rglob("*.py") if path.name != "__init__.py"]
    assert modules
    assert [path for path in modules if path.with_suffix("").joinpath("__init__.py").is_file()] == []
