"""What of the user's uv settings reaches uv: where wheels come from and how, nothing that changes the result."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
import tomli
import uv

from envdoctor.errors import UsageError
from envdoctor.wheels.uv import Uv, locate
from envdoctor.wheels.uv_config import read


def _all_variables() -> list[str]:
    """Return every name of a variable that stands in the uv binary, some with letters of a neighbour behind them."""
    found = re.findall(rb"UV_[A-Z0-9_]{2,40}", Path(uv.find_uv_bin()).read_bytes())
    return sorted({name.decode() for name in found})


def test_only_variables_of_places_and_transport_reach_uv(tmp_path: Path) -> None:
    names = _all_variables()
    assert len(names) > 60
    more = ["UV_TARGET", "UV_PREFIX", "UV_SYSTEM_PYTHON", "UV_COMPILE_BYTECODE", "UV_A_LATER_UVS"]
    environ = dict.fromkeys([*names, *more], "1") | {"PATH": "/usr/bin", "UV_NO_CONFIG": "1"}
    left = {name for name in locate(environ, tmp_path).environment if name.startswith("UV_")}
    allowed = re.compile(
        r"UV_(AZURE_|S3_|GCS_)ENDPOINT_URL|UV_CACHE_DIR|UV_NO_CACHE|UV_CONCURRENT_[A-Z]+|UV_CREDENTIALS_DIR"
        r"|UV_(DEFAULT_|NO_)?INDEX|UV_(EXTRA_)?INDEX_URL|UV_FIND_LINKS|UV_(HTTP|REQUEST|LOCK)_[A-Z_]+|UV_INSECURE_HOST"
        r"|UV_KEYRING_PROVIDER|UV_NATIVE_TLS|UV_SYSTEM_CERTS|UV_NO_HF_TOKEN|UV_OFFLINE|UV_PYTHON_INSTALL_DIR"
        r"|UV_STACK_SIZE|UV_PYTHON_DOWNLOADS|UV_NO_PROGRESS"
    )
    assert {name for name in left if not allowed.fullmatch(name)} == set()


@pytest.mark.parametrize(("mode", "reaches"), [("symlink", False), ("copy", True), ("hardlink", True), ("clone", True)])
def test_a_link_mode_reaches_uv_where_the_venv_stays_whole(tmp_path: Path, mode: str, reaches: bool) -> None:  # noqa: FBT001
    environ = {"PATH": "", "HOME": str(tmp_path), "UV_LINK_MODE": mode, "UV_NO_CONFIG": "1"}
    assert ("UV_LINK_MODE" in locate(environ, tmp_path).environment) is reaches
    (tmp_path / "uv.toml").write_text(f'link-mode = "{mode}"\n')
    config = read({}, tmp_path / "home", tmp_path, root=tmp_path)
    assert (config.settings, config.ignored) == (
        ({"link-mode": mode}, ()) if reaches else ({}, (f"link-mode ({tmp_path / 'uv.toml'})",))
    )


def test_a_login_of_a_named_index_reaches_uv(tmp_path: Path) -> None:
    environ = {"PATH": "", "UV_INDEX_MINE_USERNAME": "me", "UV_INDEX_MINE_PASSWORD": "x", "UV_INDEX_STRATEGY": "y"}
    left = {name for name in locate(environ, tmp_path).environment if name.startswith("UV_INDEX")}
    assert left == {"UV_INDEX_MINE_USERNAME", "UV_INDEX_MINE_PASSWORD"}


def _write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_files_are_joined_as_uv_joins_them(tmp_path: Path) -> None:
    cwd, home, etc = tmp_path / "project/deep", tmp_path / "home", tmp_path / "root/etc/uv/uv.toml"
    cwd.mkdir(parents=True)
    project = _write(
        tmp_path / "project/pyproject.toml",
        """[tool.uv]
find-links = ["wheels", "http://pages/"]
compile-bytecode = true
dev-dependencies = ["pytest"]
[[tool.uv.index]]
name = "mine"
url = "simple"
[tool.uv.pip]
target = "/elsewhere"
extra-index-url = ["http://pip/simple"]
""",
    )
    _write(
        home / ".config/uv/uv.toml", 'cache-dir = "/cache"\nno-cache = false\n[[index]]\nurl = "http://two/simple"\n'
    )
    _write(etc, 'cache-dir = "/other"\nnative-tls = true\n')
    config = read({}, home, cwd, root=tmp_path / "root")
    folder = project.parent
    expected: dict[str, Any] = {
        "find-links": [str(folder / "wheels"), "http://pages/"],
        "index": [{"name": "mine", "url": str(folder / "simple")}, {"url": "http://two/simple"}],
        "pip": {"extra-index-url": ["http://pip/simple"]},
        "cache-dir": "/cache",
        "no-cache": False,
        "native-tls": True,
    }
    assert config.settings == expected
    assert tomli.loads(config.text()) == expected
    assert config.ignored == (f"compile-bytecode ({project})", f"pip.target ({project})")
    named = _write(tmp_path / "other.toml", "offline = true\n")
    assert read({"UV_CONFIG_FILE": "../../other.toml"}, home, cwd).settings == {"offline": True}
    assert read({"UV_CONFIG_FILE": str(named), "UV_NO_CONFIG": "1"}, home, cwd).settings == {}
    (folder / "uv.toml").write_text("")
    assert "find-links" not in read({}, home, cwd, root=tmp_path / "root").settings


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = _write(tmp_path / "uv.toml", "index = [\n")
    with pytest.raises(UsageError) as caught:
        read({}, tmp_path, tmp_path)
    assert caught.value.message.startswith(f"uv's configuration cannot be read: {path}: ")
    assert caught.value.hint == "correct the file, or set UV_NO_CONFIG=1 to go without it"


def test_uv_itself_reads_what_is_made_of_them(tmp_path: Path) -> None:
    """Through the descriptor that it inherits, and finds no file by itself."""
    (tmp_path / "wheels").mkdir()
    (tmp_path / "uv.toml").write_text(
        'find-links = ["wheels"]\n[pip]\ntarget = "x"\n[[index]]\nurl = "http://one/simple"\n'
    )
    cwd = tmp_path / "deep"
    cwd.mkdir()

    def told(tool: Uv) -> list[str]:
        asked = ("pip", "compile", "-", "--quiet", "--no-header", "--offline", "--emit-index-url", "--emit-find-links")
        return tool.run(asked).stdout.split()

    environ = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "UV_CACHE_DIR": str(tmp_path / "cache")}
    found = told(locate(environ, cwd))
    assert found[found.index("--find-links") + 1] == str(tmp_path / "wheels")
    assert "http://one/simple" in found
    assert "--find-links" not in told(locate({**environ, "UV_NO_CONFIG": "1"}, cwd))


@pytest.mark.parametrize("name", ["uv.toml", "pyproject.toml"])
def test_a_file_of_a_folder_above_that_others_can_write_is_not_read(tmp_path: Path, name: str) -> None:
    cwd = tmp_path / "shared/project"
    cwd.mkdir(parents=True)
    table = "" if name == "uv.toml" else "[tool.uv]\n"
    path = _write(tmp_path / "shared" / name, f'{table}index-url = "http://127.0.0.1:9/simple"\n')
    assert read({}, tmp_path / "home", cwd, root=tmp_path).project == str(path)
    path.chmod(0o666)
    config = read({}, tmp_path / "home", cwd, root=tmp_path)
    assert (config.settings, config.strange, config.project) == ({}, f"{path} can be written by everybody", "")
    if os.geteuid() == 0:
        path.chmod(0o644)
        os.chown(path, 12345, -1)
        config = read({}, tmp_path / "home", cwd, root=tmp_path)
        assert (config.settings, config.strange) == ({}, f"{path} belongs to user 12345")
    # What the user names is the user's to trust.
    named = read({"UV_CONFIG_FILE": str(path)}, tmp_path / "home", cwd, root=tmp_path)
    assert (named.settings, named.strange) == ({"index-url": "http://127.0.0.1:9/simple"}, "")
