"""Which environment to look at: real venvs, a real pyenv layout, and what people name instead of a venv."""

from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.errors import TargetError
from envdoctor.facts.host import Host
from envdoctor.facts.locate import locate
from tests.factories.make_reading import bare_host
from tests.factories.make_venv import make_venv

SHIM = """\
#!/usr/bin/env bash
set -e
[ -n "$PYENV_DEBUG" ] && set -x

program="${{0##*/}}"

export PYENV_ROOT="{root}"
exec "{root}/libexec/pyenv" exec "$program" "$@"
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a home folder with a project that has a .venv, another with a venv, a conda prefix and a pyenv."""
    root = tmp_path_factory.mktemp("places")
    make_venv(root / "home/proj/.venv")
    make_venv(root / "home/other/venv")
    (root / "home/proj/sub/deep").mkdir(parents=True)
    (root / "home/bare").mkdir()
    _prefix(root / "conda")
    _prefix(root / "usr", "lib/python3/dist-packages")
    _prefix(root / "old", "lib/python2.7/site-packages", "python2.7")
    for version in ("3.11.7", "3.11.10", "3.12.1"):
        _prefix(root / "pyenv/versions" / version, f"lib/python{version[:4]}/site-packages")
    (root / "pyenv/shims").mkdir()
    for name in ("python", "python3"):
        (root / "pyenv/shims" / name).write_text(SHIM.format(root=root / "pyenv"))
        (root / "pyenv/shims" / name).chmod(0o755)
    (root / "pyenv/version").write_text("3.11.7\n")
    (root / "dangling").symlink_to("gone/for/good")
    return root


def _prefix(prefix: Path, sites: str = "lib/python3.12/site-packages", program: str = "python3") -> None:
    (prefix / "bin").mkdir(parents=True)
    (prefix / sites).mkdir(parents=True)
    (prefix / "bin" / program).write_bytes(b"\x7fELF")
    (prefix / "bin" / program).chmod(0o755)
    (prefix / "bin/python").symlink_to(program)


def _host(root: Path, cwd: str, **environ: str) -> Host:
    return replace(bare_host(root / "home", **environ), cwd=root / cwd)


@pytest.mark.parametrize(
    ("cwd", "environ", "prefix", "why"),
    [
        ("home/proj", {}, "home/proj/.venv", ""),
        ("home/proj/sub/deep", {}, "home/proj/.venv", "found above {0}/home/proj/sub/deep"),
        ("home/proj", {"VIRTUAL_ENV": "{0}/home/other/venv"}, "home/other/venv", "from $VIRTUAL_ENV"),
        ("home/proj", {"CONDA_PREFIX": "{0}/conda"}, "conda", "from $CONDA_PREFIX"),
        ("home/proj", {"CONDA_PREFIX": "{0}/conda", "CONDA_DEFAULT_ENV": "ml"}, "conda", "from $CONDA_PREFIX"),
        ("home/proj", {"CONDA_PREFIX": "{0}/conda", "CONDA_DEFAULT_ENV": "base"}, "home/proj/.venv", ""),
        ("home/bare", {"CONDA_PREFIX": "{0}/conda", "CONDA_DEFAULT_ENV": "base"}, "conda", "from $CONDA_PREFIX"),
    ],
)
def test_the_venv_that_is_meant_without_a_name(
    root: Path, cwd: str, environ: dict[str, str], prefix: str, why: str
) -> None:
    found = locate("", _host(root, cwd, **{name: value.format(root) for name, value in environ.items()}))
    assert (found.target.prefix, found.why) == (root / prefix, why.format(root))


@pytest.mark.parametrize(
    ("named", "prefix", "why"),
    [
        ("home/proj/.venv", "home/proj/.venv", ""),
        ("home/proj/.venv/bin/python", "home/proj/.venv", ""),
        ("home/proj", "home/proj/.venv", "the .venv of that project"),
        ("home/other", "home/other/venv", "the venv of that project"),
        ("home/proj/.venv/bin", "home/proj/.venv", "whose bin folder was named"),
        ("conda/lib/python3.12/site-packages", "conda", "whose site-packages was named"),
        ("usr/lib/python3/dist-packages", "usr", "whose dist-packages was named"),
        ("conda", "conda", ""),
        (
            "pyenv/shims/python3",
            "pyenv/versions/3.11.7",
            "behind the shim {0}/pyenv/shims/python3: pyenv's 3.11.7, by {0}/pyenv/version",
        ),
    ],
)
def test_what_people_name(root: Path, named: str, prefix: str, why: str) -> None:
    found = locate(named, _host(root, "."))
    assert (found.target.prefix, found.why) == (root / prefix, why.format(root))


@pytest.mark.parametrize(
    ("environ", "file", "version", "by"),
    [
        ({}, "", "3.11.7", "{0}/pyenv/version"),
        ({}, "3.12.1\n", "3.12.1", "{0}/home/bare/.python-version"),
        ({}, "# ours\n\n3.11\n3.12.1\n", "3.11", "{0}/home/bare/.python-version"),
        ({}, "../3.12.1\n", "3.11.7", "{0}/pyenv/version"),
        ({"PYENV_VERSION": "python-3.12.1"}, "3.11.7\n", "python-3.12.1", "PYENV_VERSION"),
        ({"PYENV_VERSION": "2.7.18:3.12.1"}, "", "3.12.1", "PYENV_VERSION"),
    ],
)
def test_a_shim_leads_where_pyenv_would_go(
    root: Path, environ: dict[str, str], file: str, version: str, by: str
) -> None:
    at = root / "home/bare/.python-version"
    at.write_text(file)
    # A bare name is looked up on PATH, where every pyenv user has the shims first.
    found = locate("python3", _host(root, "home/bare", **environ, PATH=f"{root}/pyenv/shims:/usr/bin"))
    at.unlink()
    installed = {"3.11": "3.11.10", "python-3.12.1": "3.12.1"}.get(version, version)
    why = f"behind the shim {root}/pyenv/shims/python3: pyenv's {version}, by {by.format(root)}"
    assert (found.target.prefix, found.why) == (root / "pyenv/versions" / installed, why)


def test_the_systems_python_is_behind_a_shim_too(root: Path) -> None:
    host = _host(root, ".", PYENV_VERSION="system", PATH=f"{root}/pyenv/shims:{root}/usr/bin")
    assert locate("python3", host).target.prefix == root / "usr"


NAME_ONE = "name a venv folder or its interpreter: `envdoctor check path/to/.venv`"


@pytest.mark.parametrize(
    ("named", "environ", "message", "hint"),
    [
        (
            "",
            {},
            "no venv named, VIRTUAL_ENV and CONDA_PREFIX are not set, and neither {0}/home/bare nor a folder above it "
            "has a .venv",
            NAME_ONE,
        ),
        (
            "",
            {"VIRTUAL_ENV": "{0}/gone"},
            "$VIRTUAL_ENV: {0}/gone does not exist",
            f"`unset VIRTUAL_ENV`, or {NAME_ONE}",
        ),
        ("{0}/dangling", {}, "{0}/dangling is a dangling link: {0}/gone/for/good does not exist", NAME_ONE),
        (
            "{0}/old",
            {},
            "{0}/old is a Python 2.7, which is not supported",
            "name an environment of Python 3.8 or newer",
        ),
        (
            "{0}/old/bin/python",
            {},
            "{0}/old is a Python 2.7, which is not supported",
            "name an environment of Python 3.8 or newer",
        ),
        (
            "{0}/pyenv/shims/python",
            {"PYENV_VERSION": "3.14"},
            "{0}/pyenv/shims/python is a pyenv shim, and PYENV_VERSION chooses 3.14, which is not installed or has no "
            "python",
            "`pyenv versions` lists what is installed; name the interpreter itself: "
            "`envdoctor check {0}/pyenv/versions/VERSION/bin/python`",
        ),
    ],
)
def test_what_is_refused_and_with_which_words(
    root: Path, named: str, environ: dict[str, str], message: str, hint: str
) -> None:
    host = _host(root, "home/bare", **{name: value.format(root) for name, value in environ.items()})
    with pytest.raises(TargetError) as told:
        locate(named.format(root), host)
    assert (told.value.message, told.value.hint) == (message.format(root), hint.format(root))


def test_the_search_ends_at_home(root: Path, tmp_path: Path) -> None:
    make_venv(tmp_path / ".venv")
    (tmp_path / "me/work").mkdir(parents=True)
    host = replace(bare_host(tmp_path / "me"), cwd=tmp_path / "me/work")
    with pytest.raises(TargetError):
        locate("", host)
    assert locate("", replace(host, home=root)).target.prefix == tmp_path / ".venv"


def test_the_shims_of_this_machines_pyenv_are_understood(tmp_path: Path) -> None:
    shim = Path.home() / ".pyenv/shims/python3"
    if not shim.is_file():
        pytest.skip("no pyenv here")
    version = (Path.home() / ".pyenv/version").read_text().split()[0]
    found = locate(str(shim), replace(bare_host(tmp_path), cwd=tmp_path))
    assert found.target.prefix == Path.home() / ".pyenv/versions" / version
