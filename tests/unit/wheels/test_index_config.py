"""pip's settings as uv is told them: what the user told uv itself wins, and no password becomes an argument."""

import sys
from pathlib import Path

import pytest

from envdoctor.wheels.index_config import configured
from envdoctor.wheels.pip_config import PipSettings
from envdoctor.wheels.uv import Uv, locate


def _uv(folder: Path, **variables: str) -> Uv:
    """Return uv with a folder that holds two folders of wheels as its working folder."""
    for name in ("uv-wheels", "pip-wheels"):
        (folder / name).mkdir()
    return locate(
        {"PATH": "/usr/bin:/bin", "HOME": str(folder), "UV_CACHE_DIR": str(folder / "cache"), **variables}, folder
    )


def _pip(**settings: object) -> PipSettings:
    return PipSettings(told_by={}, **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("variables", "settings", "indexes", "find_links"),
    [
        ({}, {"index_url": "http://pip/simple"}, ("http://pip/simple",), ()),
        ({"UV_DEFAULT_INDEX": "http://uv/simple"}, {"index_url": "http://pip/simple"}, ("http://uv/simple",), ()),
        ({"UV_INDEX_URL": "http://uv/simple"}, {"index_url": "http://pip/simple"}, ("http://uv/simple",), ()),
        (
            {"UV_INDEX": "http://uv/extra"},
            {"index_url": "http://pip/simple", "extra_index_urls": ("http://pip/extra", "http://uv/extra")},
            ("http://uv/extra", "http://pip/extra", "http://pip/simple"),
            (),
        ),
        (
            {"UV_FIND_LINKS": "uv-wheels"},
            {"index_url": "http://pip/simple", "find_links": ("pip-wheels", "uv-wheels")},
            ("http://pip/simple",),
            ("uv-wheels", "pip-wheels"),
        ),
        ({}, {"no_index": True, "index_url": "http://pip/simple", "find_links": ("pip-wheels",)}, (), ("pip-wheels",)),
    ],
)
def test_uv_sees_both_its_own_and_pips(
    tmp_path: Path,
    variables: dict[str, str],
    settings: dict[str, object],
    indexes: tuple[str, ...],
    find_links: tuple[str, ...],
) -> None:
    sources = configured(_uv(tmp_path, UV_NO_CONFIG="1", **variables), _pip(**settings), tmp_path, sys.executable)
    assert (sources.indexes, sources.find_links) == (indexes, find_links)


def test_the_users_uv_configuration_counts(tmp_path: Path) -> None:
    (tmp_path / "uv.toml").write_text('[[index]]\nurl = "http://mine/simple"\ndefault = true\n')
    uv = _uv(tmp_path, UV_CONFIG_FILE=str(tmp_path / "uv.toml"))
    assert configured(uv, _pip(), tmp_path, sys.executable).indexes == ("http://mine/simple",)
    pip = _pip(index_url="http://pip/simple", extra_index_urls=("http://pip/extra",))
    assert configured(uv, pip, tmp_path, sys.executable).indexes == ("http://pip/extra", "http://mine/simple")


@pytest.mark.parametrize("head", ["", "[pip]\n"])
def test_a_default_index_in_uvs_file_wins(tmp_path: Path, head: str) -> None:
    (tmp_path / "uv.toml").write_text(f'{head}index-url = "http://mine/simple"\n')
    sources = configured(_uv(tmp_path), _pip(index_url="http://pip/simple"), tmp_path, sys.executable)
    assert sources.indexes == ("http://mine/simple",)


def test_one_source_leaves_no_other(tmp_path: Path) -> None:
    settings = _pip(
        index_url="http://me:secret@pip/simple",
        extra_index_urls=("http://pip/extra",),
        find_links=("pip-wheels",),
        certificate="/c.pem",
        proxy="http://proxy:1",
        trusted_hosts=("pip",),
    )
    sources = configured(_uv(tmp_path, UV_NO_CONFIG="1"), settings, tmp_path, sys.executable)
    transport = {"SSL_CERT_FILE": "/c.pem", "ALL_PROXY": "http://proxy:1", "UV_INSECURE_HOST": "pip"}
    unset = dict.fromkeys(("UV_EXTRA_INDEX_URL", "UV_INDEX_URL"), "")
    folder = sources.only("pip-wheels")
    assert folder.arguments == ("--no-index",)
    assert folder.variables == {
        **transport, **unset, "UV_INDEX": "", "UV_DEFAULT_INDEX": "", "UV_FIND_LINKS": "pip-wheels",
    }  # fmt: skip
    index = sources.only("http://pip/extra")
    assert index.arguments == ()
    assert index.variables == {
        **transport, **unset, "UV_FIND_LINKS": "",
        "UV_INDEX": "http://pip/extra", "UV_DEFAULT_INDEX": "http://pip/extra",
    }  # fmt: skip
    assert sources.everywhere.variables["UV_DEFAULT_INDEX"] == "http://me:secret@pip/simple"
    assert sources.everywhere.arguments == ()


def test_a_find_links_folder_that_is_gone_is_passed_over_and_said(tmp_path: Path) -> None:
    settings = _pip(index_url="http://pip/simple", find_links=("/nowhere", "file:///nowhere/else", "pip-wheels"))
    sources = configured(_uv(tmp_path, UV_NO_CONFIG="1"), settings, tmp_path, sys.executable)
    assert sources.find_links == ("pip-wheels",)
    assert sources.warnings == (
        "pip's find-links place /nowhere does not exist and is passed over",
        "pip's find-links place file:///nowhere/else does not exist and is passed over",
    )
