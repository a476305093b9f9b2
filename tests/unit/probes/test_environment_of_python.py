"""Interpreter and sys.path, compared with what the interpreter itself says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from envdoctor.probes.venv.distributions import Distributions, Leftover
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.search_path import SearchPath
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import make_venv, rewrite, run_uv
from tests.factories.make_wheel import make_wheel


def _sys_path(python: Path, **environ: str) -> list[str]:
    done = subprocess.run(
        [python, "-c", "import sys, json; print(json.dumps(sys.path))"],
        env={"PATH": "/usr/bin:/bin", **environ},
        capture_output=True,
        check=True,
        cwd="/",
    )
    # The first entry is the script's folder, which is not known from outside; a missing zip is not a directory.
    return [entry for entry in json.loads(done.stdout)[1:] if Path(entry).is_dir()]


def _predicted(prefix: Path, home: Path, **environ: str) -> list[str]:
    reading = read(prefix, bare_host(home, **environ))
    return [entry.path for entry in reading.fact(SearchPath).entries]


def test_the_interpreter_is_read_from_pyvenv_cfg(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    python = read(venv.prefix).fact(Interpreter)
    assert python.version == ".".join(map(str, sys.version_info[:3]))
    assert python.executable == str(venv.python)
    assert python.is_venv
    assert not python.system_site_packages
    assert python.created_by.startswith("uv ")


@pytest.mark.parametrize("flags", [(), ("--system-site-packages",)], ids=["isolated", "system-site"])
@pytest.mark.parametrize("leak", [False, True], ids=["no-PYTHONPATH", "PYTHONPATH"])
def test_sys_path_is_predicted(tmp_path: Path, flags: tuple[str, ...], leak: bool) -> None:  # noqa: FBT001
    home = tmp_path / "home"
    user_site = home / f".local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    user_site.mkdir(parents=True)
    leaked = tmp_path / "leaked"
    leaked.mkdir()
    prefix = tmp_path / "venv"
    run_uv("venv", "-q", "--python", Path(sys.executable).resolve(), *flags, prefix, cache=tmp_path / "cache")
    added = tmp_path / "added by pth"
    added.mkdir()
    site = next((prefix / "lib").glob("python3.*")) / "site-packages"
    (site / "extra.pth").write_text(f"# a comment\n{added}\n{tmp_path}/does-not-exist\nimport os\n")
    environ = {"HOME": str(home)} | ({"PYTHONPATH": str(leaked)} if leak else {})
    assert _predicted(prefix, home, **environ) == _sys_path(prefix / "bin/python", **environ)


def test_pythonnousersite_keeps_the_user_site_out(tmp_path: Path) -> None:
    home = tmp_path / "home"
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (home / f".local/lib/python{minor}/site-packages").mkdir(parents=True)
    prefix = tmp_path / "venv"
    run_uv(
        "venv", "-q", "--python", Path(sys.executable).resolve(), "--system-site-packages", prefix, cache=tmp_path / "c"
    )
    environ = {"HOME": str(home), "PYTHONNOUSERSITE": "1"}
    assert _predicted(prefix, home, **environ) == _sys_path(prefix / "bin/python", **environ)


@pytest.mark.parametrize("stale_first", [True, False])
def test_a_complete_metadata_folder_wins_in_either_order(tmp_path: Path, stale_first: bool) -> None:  # noqa: FBT001
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "torch", "2.0"))
    stale = venv.site_packages / f"torch-{'1.0' if stale_first else '3.0'}.dist-info"
    stale.mkdir()
    (stale / "REQUESTED").touch()
    found = read(venv.prefix).fact(Distributions)
    assert [(item.version, item.shadowed) for item in found.items if item.has_metadata] == [("2.0", False)]
    assert [item.shadowed for item in found.items if not item.has_metadata] == [True]


def test_a_leaked_distribution_shadows_the_venvs(tmp_path: Path) -> None:
    new = make_wheel(tmp_path / "wheels", "torch", "2.8.0")
    old = make_wheel(tmp_path / "wheels", "torch", "2.6.0")
    venv = make_venv(tmp_path / "venv", new)
    leak = tmp_path / "leak"
    run_uv(
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--python",
        venv.python,
        "--target",
        leak,
        old,
        cache=tmp_path / ".uv-cache",
    )
    found = read(venv.prefix, bare_host(tmp_path / "home", PYTHONPATH=str(leak))).fact(Distributions)
    assert [(item.version, item.origin, item.shadowed) for item in found.items] == [
        ("2.6.0", "PYTHONPATH", False),
        ("2.8.0", "site-packages", True),
    ]


def test_leftovers_of_an_interrupted_pip_are_listed(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "torch", "2.0"))
    (venv.site_packages / "~orch").mkdir()
    info = venv.site_packages / "~orch-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Torch\nVersion: 1.0\n")
    found = read(venv.prefix).fact(Distributions)
    assert found.leftovers == (
        Leftover(path=str(venv.site_packages / "~orch"), name="", version=""),
        Leftover(path=str(info), name="torch", version="1.0"),
    )
    assert [item.name for item in found.items] == ["torch"]


def test_an_ordinary_interpreter_looks_into_the_user_site_first(tmp_path: Path) -> None:
    home = tmp_path / "home"
    minor = f"{sys.version_info[0]}.{sys.version_info[1]}"
    (home / f".local/lib/python{minor}/site-packages").mkdir(parents=True)
    prefix = Path(sys.base_prefix)
    python = prefix / f"bin/python{minor}"
    assert _predicted(prefix, home, HOME=str(home)) == _sys_path(python, HOME=str(home))


def test_a_relative_element_of_pythonpath_starts_from_the_current_folder(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    host = bare_host(tmp_path / "home", PYTHONPATH="src:")
    (host.cwd / "src").mkdir()
    entries = read(venv.prefix, host).fact(SearchPath).entries
    assert [entry.path for entry in entries if entry.origin == "PYTHONPATH"] == [str(host.cwd / "src"), str(host.cwd)]


def test_a_free_threaded_build_has_folders_of_its_own(tmp_path: Path) -> None:
    prefix = tmp_path / "venv"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "bin/python").symlink_to(sys.executable)
    (prefix / "lib/python3.13t/site-packages").mkdir(parents=True)
    (prefix / "pyvenv.cfg").write_text("home = /opt/python/bin\nversion_info = 3.13.2\n")
    reading = read(prefix)
    python = reading.fact(Interpreter)
    assert (python.version, python.minor, python.folder, python.free_threaded) == (
        "3.13.2",
        "3.13",
        "python3.13t",
        True,
    )
    assert [entry.path for entry in reading.fact(SearchPath).entries] == [f"{prefix}/lib/python3.13t/site-packages"]


def test_rows_of_the_base_interpreters_scripts_do_not_escape(tmp_path: Path) -> None:
    """A base's `../../../bin/pip` leads out of its site folder by design."""
    prefix = tmp_path / "venv"
    run_uv(
        "venv", "-q", "--python", Path(sys.executable).resolve(), "--system-site-packages", prefix, cache=tmp_path / "c"
    )
    assert read(prefix).fact(InstalledFiles).outside == ()


def test_a_home_that_is_gone_gives_way_to_where_the_interpreter_leads(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    config = venv.prefix / "pyvenv.cfg"
    lines = [f"home = {tmp_path}/gone" if line.startswith("home") else line for line in config.read_text().splitlines()]
    rewrite(config, "\n".join([*lines, ""]))
    assert _predicted(venv.prefix, tmp_path / "home") == _sys_path(venv.python)


def test_a_pth_file_of_thousands_of_folders_keeps_each_once(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    folders = [tmp_path / f"many/{number}" for number in range(3000)]
    for folder in folders:
        folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(folders[7])
    # Relative, so that the length of the temporary folder's path does not count: such a file may hold 256 KiB.
    lines = [os.path.relpath(folder, venv.site_packages) for folder in (*folders, tmp_path / "link", *folders[:9])]
    (venv.site_packages / "many.pth").write_text("\n".join(lines))
    found = [entry.path for entry in read(venv.prefix).fact(SearchPath).entries if entry.origin == "many.pth"]
    assert found == [str(folder) for folder in folders]
