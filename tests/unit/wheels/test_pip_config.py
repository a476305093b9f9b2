"""pip's configuration, read as pip itself reads it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.errors import UsageError
from envdoctor.wheels.pip_config import PipSettings, config_files, read

GLOBAL, USER = "etc/pip.conf", "home/.config/pip/pip.conf"


def _read(root: Path, files: dict[str, str], environment: dict[str, str] | None = None) -> PipSettings:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    venv = root / "venv"
    return read(environment or {}, root / "home", venv=venv, root=root)


def test_without_any_file_nothing_is_set(tmp_path: Path) -> None:
    assert _read(tmp_path, {}) == PipSettings(told_by={})


@pytest.mark.parametrize(
    ("files", "environment", "wanted"),
    [
        ({"etc/xdg/pip/pip.conf": "[global]\nindex-url = a"}, {}, "a"),
        ({"etc/xdg/pip/pip.conf": "[global]\nindex-url = a", GLOBAL: "[global]\nindex-url = b"}, {}, "b"),
        ({GLOBAL: "[global]\nindex-url = b", "home/.pip/pip.conf": "[global]\nindex-url = c"}, {}, "c"),
        ({"home/.pip/pip.conf": "[global]\nindex-url = c", USER: "[global]\nindex-url = d"}, {}, "d"),
        ({USER: "[global]\nindex-url = d", "venv/pip.conf": "[global]\nindex-url = e"}, {}, "e"),
        ({USER: "[global]\nindex-url = d"}, {"PIP_INDEX_URL": "f"}, "f"),
        # The command's section beats [global] whatever file it stands in.
        ({GLOBAL: "[install]\nindex-url = g", "venv/pip.conf": "[global]\nindex-url = e"}, {}, "g"),
        ({GLOBAL: "[download]\nindex-url = g", USER: "[global]\nindex-url = d"}, {}, "d"),
        ({USER: "[global]\nindex_url = d"}, {}, "d"),
        ({USER: "[global]\nindex-url = d"}, {"PIP_INDEX_URL": ""}, "d"),
    ],
)
def test_what_overrides_what(tmp_path: Path, files: dict[str, str], environment: dict[str, str], wanted: str) -> None:
    assert _read(tmp_path, files, environment).index_url == wanted


def test_a_named_file_beats_all_and_the_users_own_is_passed_over(tmp_path: Path) -> None:
    named = tmp_path / "named.conf"
    files = {
        "named.conf": "[global]\nindex-url = named",
        USER: "[global]\nindex-url = user\nno-index = yes",
        GLOBAL: "[global]\nextra-index-url = one\n   two",
    }
    settings = _read(tmp_path, files, {"PIP_CONFIG_FILE": str(named)})
    assert settings == PipSettings(
        index_url="named",
        extra_index_urls=("one", "two"),
        told_by={"index-url": str(named), "extra-index-url": str(tmp_path / GLOBAL)},
    )


def test_a_named_file_that_is_absent_leaves_the_users_own(tmp_path: Path) -> None:
    settings = _read(tmp_path, {USER: "[global]\nindex-url = d"}, {"PIP_CONFIG_FILE": str(tmp_path / "absent")})
    assert settings.index_url == "d"


def test_devnull_turns_files_off_but_not_variables(tmp_path: Path) -> None:
    environment = {"PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": "/a /b"}
    settings = _read(tmp_path, {USER: "[global]\nindex-url = d"}, environment)
    assert settings == PipSettings(find_links=("/a", "/b"), told_by={"find-links": "PIP_FIND_LINKS"})


def test_every_setting_that_matters(tmp_path: Path) -> None:
    text = (
        "[global]\nno-index = true\ncert = /c.pem\nproxy = http://p:1\ntrusted-host = h1 h2\n"
        "constraint = c.txt\nfind-links = /w\ntimeout = 3\n"
    )
    path = str(tmp_path / USER)
    assert _read(tmp_path, {USER: text}) == PipSettings(
        find_links=("/w",),
        no_index=True,
        constraints=("c.txt",),
        trusted_hosts=("h1", "h2"),
        certificate="/c.pem",
        proxy="http://p:1",
        told_by=dict.fromkeys(("find-links", "constraint", "trusted-host", "no-index", "cert", "proxy"), path),
    )


def test_a_home_folder_is_expanded_where_pip_does_that(tmp_path: Path) -> None:
    (tmp_path / "home/wheels").mkdir(parents=True)
    text = "[global]\ncert = ~/ca.pem\nfind-links = ~/wheels ~/absent ~root/absent\nconstraint = ~/c.txt\n"
    settings = _read(tmp_path, {USER: text})
    assert settings.certificate == f"{tmp_path}/home/ca.pem"
    # pip takes it for a folder of that name where the home folder has none, and opens constraints as they are named.
    assert settings.find_links == (f"{tmp_path}/home/wheels", "~/absent", "~root/absent")
    assert settings.constraints == ("~/c.txt",)
    assert _read(tmp_path, {}, {"PIP_CERT": "~root/ca.pem"}).certificate == str(Path("~root/ca.pem").expanduser())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("index-url = x", "pip's configuration cannot be read: {path}: File contains no section headers."),
        ("[global]\nno-index = maybe", "{path}: no-index = `maybe` is neither yes nor no"),
    ],
)
def test_what_pip_refuses_is_refused(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        _read(tmp_path, {USER: text})
    assert caught.value.message == message.format(path=tmp_path / USER)


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"XDG_CONFIG_HOME": "{root}/other"},
        {"XDG_CONFIG_DIRS": "{root}/one:{root}/two"},
        {"PIP_CONFIG_FILE": "{root}/named.conf"},
        {"PIP_CONFIG_FILE": "{root}/absent.conf"},
    ],
    ids=lambda item: " ".join(item) or "plain",
)
def test_pip_itself_looks_into_the_same_files(tmp_path: Path, environment: dict[str, str]) -> None:
    pip = _pip_of_the_base()
    (tmp_path / "named.conf").write_text("[global]\nindex-url = named\n")
    variables = {name: value.format(root=tmp_path) for name, value in environment.items()}
    variables["HOME"] = str(tmp_path)
    told = subprocess.run([*pip, "config", "debug"], env=variables, capture_output=True, text=True, check=True).stdout
    lines = [line.strip() for line in told.splitlines() if ", exists: " in line]
    pips_own = [line.split(", exists: ")[0] for line in lines]
    # `pip config debug` starts with the named file, which is loaded last; "site" is the base interpreter's own prefix.
    site = Path(_base_python()).resolve().parent.parent
    named = variables.get("PIP_CONFIG_FILE")
    expected = [str(path) for path in config_files(variables, tmp_path, venv=site)]
    assert sorted(pips_own) == sorted(expected)
    if named:
        assert expected[-1] == named


def _base_python() -> str:
    return str(getattr(sys, "_base_executable", "") or sys.executable)


def _pip_of_the_base() -> list[str]:
    command = [_base_python(), "-m", "pip"]
    code = "import json, importlib.util as u; print(json.dumps(u.find_spec('pip') is not None))"
    if not json.loads(subprocess.run([command[0], "-c", code], capture_output=True, text=True, check=True).stdout):
        pytest.skip("the base interpreter has no pip to compare with")
    return command
