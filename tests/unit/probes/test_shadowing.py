"""Shadowing, compared with what the interpreter itself would import."""

import json
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

from envdoctor.model.frozen import replace
from envdoctor.probes.venv.shadowing import Shadowing
from tests.factories.make_reading import bare_host, read
from tests.factories.make_venv import Venv, install, make_venv, rewrite
from tests.factories.make_wheel import make_wheel


@pytest.fixture(scope="module")
def venv(tmp_path_factory: pytest.TempPathFactory) -> Venv:
    root = tmp_path_factory.mktemp("venv")
    wheels = (
        make_wheel(root / "wheels", "package", "1", files={"package/__init__.py": ""}),
        make_wheel(root / "wheels", "module", "1", files={"module.py": ""}),
        make_wheel(root / "wheels", "space", "1", files={"space/part/__init__.py": ""}),
    )
    return make_venv(root / "venv", *wheels)


def _imported(venv: Venv, name: str, cwd: Path, **environ: str) -> str:
    """Return the folder of sys.path that the interpreter takes the name from; empty for a namespace."""
    code = f"import importlib.util, json; s = importlib.util.find_spec({name!r}); print(json.dumps(s.origin))"
    done = subprocess.run(
        [venv.python, "-c", code], env={"PATH": "/usr/bin", **environ}, cwd=cwd, capture_output=True, check=True
    )
    origin = json.loads(done.stdout)
    return str(Path(origin).parent.parent if origin.endswith("__init__.py") else Path(origin).parent) if origin else ""


FRONTS = {
    "package": ("package/__init__.py", "package.py"),
    "namespace": ("package/deeper/__init__.py",),
    "module": ("module.py", "module/__init__.py"),
    "portion": ("space/__init__.py",),
    "two portions": ("space/other/__init__.py",),
    "unrelated": ("another.py",),
}


@pytest.mark.parametrize("kind", FRONTS)
@pytest.mark.parametrize("through", ["PYTHONPATH", "current folder"])
def test_the_module_in_front_is_the_one_python_takes(venv: Venv, tmp_path: Path, kind: str, through: str) -> None:
    for file in FRONTS[kind]:
        front = tmp_path / file.replace("/", "-")
        (front / file).parent.mkdir(parents=True, exist_ok=True)
        (front / file).touch()
        name = file.partition("/")[0].removesuffix(".py")
        away = tmp_path / "home"
        if through == "PYTHONPATH":
            host = bare_host(away, PYTHONPATH=str(front))
            taken = _imported(venv, name, away, PYTHONPATH=str(front))
        else:
            host = bare_host(front)
            taken = _imported(venv, name, front)
        found = read(venv.prefix, host).fact(Shadowing).shadows
        shadowed = taken == str(front) and name in ("package", "module", "space")
        # In the current folder only what bears an installed distribution's name counts.
        assert [(shadow.module, shadow.front, shadow.front_origin) for shadow in found] == (
            [(name, str(front), through)] if shadowed else []
        )
        assert {shadow.behind for shadow in found} <= {str(venv.site_packages)}


def test_a_standard_modules_name_on_pythonpath(venv: Venv, tmp_path: Path) -> None:
    leak = tmp_path / "leak"
    leak.mkdir()
    (leak / "typing.py").touch()
    (shadow,) = read(venv.prefix, bare_host(tmp_path / "home", PYTHONPATH=str(leak))).fact(Shadowing).shadows
    assert (shadow.module, shadow.behind_origin) == ("typing", "standard library")
    assert _imported(venv, "typing", tmp_path, PYTHONPATH=str(leak)) == str(leak)


def test_pythonsafepath_keeps_the_current_folder_out(venv: Venv, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/module.py").touch()
    assert len(read(venv.prefix, bare_host(tmp_path / "home")).fact(Shadowing).shadows) == 1
    assert read(venv.prefix, bare_host(tmp_path / "home", PYTHONSAFEPATH="1")).fact(Shadowing).shadows == ()


def test_a_folder_of_the_environment_shadows_nothing(venv: Venv) -> None:
    for cwd in (venv.site_packages, venv.prefix):
        host = bare_host(venv.prefix.parent / "home")
        inside = replace(host, cwd=cwd)
        assert read(venv.prefix, inside).fact(Shadowing).shadows == ()


def test_a_stale_copy_in_front_of_an_editable_source(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv")
    source = tmp_path / "src"
    (source / "mine").mkdir(parents=True)
    (source / "mine/__init__.py").touch()
    wheel = make_wheel(tmp_path / "wheels", "mine", "1", files={"__editable__.mine-1.pth": f"{source}\n"})
    install(venv, wheel)
    info = venv.dist_info("mine")
    (info / "direct_url.json").write_text(json.dumps({"url": f"file://{source}", "dir_info": {"editable": True}}))
    assert read(venv.prefix).fact(Shadowing).shadows == ()
    stale = venv.site_packages / "mine"
    stale.mkdir()
    (stale / "__init__.py").touch()
    (shadow,) = read(venv.prefix).fact(Shadowing).shadows
    assert (shadow.module, shadow.front, shadow.behind) == ("mine", str(venv.site_packages), str(source))
    assert _imported(venv, "mine", tmp_path) == str(venv.site_packages)


def test_a_package_split_over_lib_and_lib64(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_wheel(tmp_path / "wheels", "thing", "1"))
    (venv.prefix / "lib64").unlink(missing_ok=True)
    folder = venv.site_packages.parent.name
    other = venv.prefix / "lib64" / folder / "site-packages"
    (other / "thing").mkdir(parents=True)
    (other / "thing/__init__.py").touch()
    # This build's sys.platlibdir is lib: it looks into no lib64.
    assert read(venv.prefix).fact(Shadowing).shadows == ()
    base = tmp_path / "base"
    (base / "lib64" / folder).mkdir(parents=True)
    (base / "lib64" / folder / "os.py").touch()
    config = venv.prefix / "pyvenv.cfg"
    rewrite(config, re.sub("(?m)^home = .*$", f"home = {base}/bin", config.read_text()))
    (shadow,) = read(venv.prefix).fact(Shadowing).shadows
    assert (shadow.module, shadow.front, shadow.behind) == ("thing", str(other), str(venv.site_packages))


def test_a_local_file_in_front_of_the_standard_library(venv: Venv, tmp_path: Path) -> None:
    host = bare_host(tmp_path / "project")
    # A module that torch does not import, and a folder without __init__.py, stand in nobody's way.
    (host.cwd / "code.py").touch()
    (host.cwd / "logging").mkdir()
    assert read(venv.prefix, host).fact(Shadowing).shadows == ()
    (host.cwd / "queue.py").touch()
    (shadow,) = read(venv.prefix, host).fact(Shadowing).shadows
    assert (shadow.module, shadow.front, shadow.front_origin, shadow.behind) == (
        "queue",
        str(host.cwd),
        "current folder",
        "the standard library",
    )
    assert _imported(venv, "queue", host.cwd) == str(host.cwd)


FORMS = ("{}/__init__.py", "{}.{tag}.so", "{}.abi3.so", "{}.so", "{}.py", "{}.pyc", "{}/data.txt")


@pytest.mark.parametrize("installed", range(len(FORMS)))
@pytest.mark.parametrize("stray", range(len(FORMS)))
def test_of_one_folder_the_file_python_takes(venv: Venv, installed: int, stray: int) -> None:
    tag = sysconfig.get_config_var("SOABI")
    paths = [form.format("mixed", tag=tag) for form in (FORMS[installed], FORMS[stray])]
    if paths[0] == paths[1] or installed == len(FORMS) - 1:
        return
    info = venv.site_packages / "mixed-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mixed\nVersion: 1\n")
    (info / "RECORD").write_text(f"{paths[0]},,\nmixed-1.dist-info/METADATA,,\nmixed-1.dist-info/RECORD,,\n")
    for path in paths:
        (venv.site_packages / path).parent.mkdir(exist_ok=True)
        (venv.site_packages / path).touch()
    try:
        code = "import importlib.util as u; print(u.find_spec('mixed').origin)"
        origin = subprocess.run([venv.python, "-c", code], capture_output=True, check=True, text=True).stdout.strip()
        found = read(venv.prefix).fact(Shadowing).beside
    finally:
        shutil.rmtree(info)
        shutil.rmtree(venv.site_packages / "mixed", ignore_errors=True)
        for path in venv.site_packages.glob("mixed.*"):
            path.unlink()
    taken = [item.fronts[0] for item in found]
    # Of one package `__init__` has one form here, so that there is a front exactly where Python takes the stray file.
    assert taken == ([origin] if origin == str(venv.site_packages / paths[1]) else [])
