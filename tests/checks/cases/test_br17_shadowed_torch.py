"""operator torchvision::nms does not exist: an older torch comes first (pytorch/vision issue 9174)."""

from dataclasses import replace
from pathlib import Path

from envdoctor.model.profile import TorchWanted
from tests.factories.examine_venv import commands_of, environment_after, first, mend, outline, verdict_of
from tests.factories.make_facts import PROFILE
from tests.factories.make_reading import bare_host
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, install, make_venv, run_uv
from tests.factories.make_wheel import make_wheel

VISION = {
    "torchvision/__init__.py": "import torch\n",
    "torchvision/version.py": "__version__ = '0.23.0+cu128'\ncuda = '12.8'\n",
}


def _venv(root: Path, torch: Path) -> Venv:
    vision = make_wheel(root / "wheels", "torchvision", "0.23.0", requires=["torch==2.8.0"], files=VISION)
    return make_venv(root / "venv", torch, vision)


def test_br17_another_torch_stands_in_front(tmp_path: Path) -> None:
    venv = _venv(tmp_path, make_torch(tmp_path / "wheels", "2.8.0", "12.8"))
    old = make_torch(tmp_path / "old", "2.6.0", "12.4")
    shadow = tmp_path / "shadow"
    run_uv(
        "pip", "install", "-q", "--no-deps", "--python", venv.python, "--target", shadow, old,
        cache=tmp_path / ".uv-cache",
    )  # fmt: skip
    host = bare_host(tmp_path / "home", PYTHONPATH=str(shadow))

    verdict = verdict_of(venv.prefix, host)
    site = str(venv.site_packages).replace(str(tmp_path), "[TMP]")
    assert outline(verdict, tmp_path) == [
        f"error ED410 torch 2.6.0 would be imported from [TMP]/shadow (PYTHONPATH) instead of 2.8.0 in {site}",
        "  error ED405 torch has 2 metadata folders; the one in [TMP]/shadow comes first",
        "  error ED408 torchvision 0.23.0+cu128 was built for torch 2.8; torch 2.6.0 is imported",
        "  warning ED406 torchvision 0.23.0 requires torch==2.8.0, and 2.6.0 from [TMP]/shadow comes first",
    ]
    # Reinstalling torchvision, or torch, would change nothing.
    assert commands_of(verdict.findings[0], tmp_path) == ["unset PYTHONPATH"]
    mended = environment_after(host, *verdict.findings[0].remediation.commands)
    assert verdict_of(venv.prefix, mended).findings == ()


def test_br17_the_rest_of_pythonpath_stays(tmp_path: Path) -> None:
    venv = _venv(tmp_path, make_torch(tmp_path / "wheels", "2.8.0", "12.8"))
    sources = tmp_path / "src tree"
    sources.mkdir()
    shadow = tmp_path / "shadow"
    (shadow / "torch").mkdir(parents=True)
    (shadow / "torch/__init__.py").touch()
    host = bare_host(tmp_path / "home", PYTHONPATH=f"{shadow}:{sources}")
    finding = verdict_of(venv.prefix, host).findings[0]
    assert commands_of(finding, tmp_path) == ["export PYTHONPATH='[TMP]/src tree'"]
    # No metadata, no version.py: still another torch than the one that was installed.
    assert (finding.code, finding.severity) == ("ED410", "error")


def test_br17_comes_before_what_the_profile_says_of_that_torch(tmp_path: Path) -> None:
    venv = make_venv(tmp_path / "venv", make_torch(tmp_path / "wheels", "2.8.0", "12.8"))
    shadow = tmp_path / "shadow"
    (shadow / "torch").mkdir(parents=True)
    (shadow / "torch/__init__.py").touch()
    host = bare_host(tmp_path / "home", PYTHONPATH=str(shadow))
    wanted = TorchWanted(version="2.8.0+cu128", cuda="12.8")
    verdict = verdict_of(venv.prefix, host, profile=replace(PROFILE, torch=wanted))
    site = str(venv.site_packages).replace(str(tmp_path), "[TMP]")
    lines = outline(verdict, tmp_path)
    assert lines[:2] == [
        f"error ED410 torch would be imported from [TMP]/shadow (PYTHONPATH) instead of 2.8.0 in {site}",
        "  error ED404 torch is of unknown version; the profile wants 2.8.0+cu128",
    ]
    assert commands_of(verdict.findings[0], tmp_path) == ["unset PYTHONPATH"]


def test_br17_with_one_torch_it_is_the_plain_mismatch(tmp_path: Path) -> None:
    venv = _venv(tmp_path, make_torch(tmp_path / "wheels", "2.6.0", "12.4"))
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == (
        "ED408",
        "torchvision 0.23.0+cu128 was built for torch 2.8; torch 2.6.0 is imported",
    )
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps 'torchvision==0.21.*'"
    ]
    fitting = {**VISION, "torchvision/version.py": "__version__ = '0.21.0+cu124'\ncuda = '12.4'\n"}
    make_wheel(tmp_path / "wheels", "torchvision", "0.21.0", requires=["torch==2.6.0"], files=fitting)
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_br17_a_checkout_of_torch_in_the_current_folder(tmp_path: Path) -> None:
    venv = _venv(tmp_path, make_torch(tmp_path / "wheels", "2.8.0", "12.8"))
    host = bare_host(tmp_path / "home")
    (host.cwd / "torch").mkdir()
    assert verdict_of(venv.prefix, host).findings == ()  # a folder without __init__.py gives way to the package
    (host.cwd / "torch/__init__.py").touch()
    verdict = verdict_of(venv.prefix, host)
    site = str(venv.site_packages).replace(str(tmp_path), "[TMP]")
    assert first(verdict, tmp_path) == (
        "ED410",
        f"torch would be imported from [TMP]/home (current folder) instead of 2.8.0 in {site}",
    )
    mended = environment_after(host, *verdict.findings[0].remediation.commands)
    assert verdict_of(venv.prefix, mended).findings == ()


def test_br17_install_is_imported(tmp_path: Path) -> None:
    """The healthy trio has no finding."""
    venv = _venv(tmp_path, make_torch(tmp_path / "wheels", "2.8.0", "12.8"))
    install(venv, make_wheel(tmp_path / "wheels", "torchaudio", "2.8.0", requires=["torch==2.8.0"]))
    assert verdict_of(venv.prefix).findings == ()
