"""pynvml, nvidia-ml-py and nvidia-ml-py3 all own pynvml.py (astral-sh/uv issue 11700, nvitop issue 44)."""

from pathlib import Path

import pytest

from tests.factories.examine_venv import by_hand, commands_of, first, mend, verdict_of
from tests.factories.make_venv import Venv, install, make_venv, uninstall
from tests.factories.make_wheel import make_wheel

REDIRECTOR = "import sys, warnings\nclass Finder:\n    def find_spec(self, name, path=None, target=None): pass\n"


def _wheels(root: Path) -> tuple[Path, Path, Path]:
    return (
        make_wheel(root / "wheels", "nvidia-ml-py", "12.570.86", files={"pynvml.py": "V = 'official'\n"}),
        make_wheel(root / "wheels", "nvidia-ml-py3", "7.352.0", files={"pynvml.py": "V = 'the fork of 2018'\n"}),
        make_wheel(
            root / "wheels",
            "pynvml",
            "13.0.1",
            requires=["nvidia-ml-py"],
            files={
                "_pynvml_redirector.py": REDIRECTOR,
                "_pynvml_redirector.pth": "import _pynvml_redirector\n",
            },
        ),
    )


def _venv(root: Path) -> tuple[Venv, tuple[Path, Path, Path]]:
    wheels = _wheels(root)
    return make_venv(root / "venv", wheels[0]), wheels


@pytest.mark.parametrize("hands", [False, True], ids=["on a copy", "by hand"])
def test_br25_the_fork_lies_over_the_official_one(tmp_path: Path, *, hands: bool) -> None:
    venv, (_, fork, _) = _venv(tmp_path)
    install(venv, fork)
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == (
        "ED409",
        "the module pynvml is installed by nvidia-ml-py 12.570.86 and nvidia-ml-py3 7.352.0 at once; "
        "the one on disk is nvidia-ml-py3's",
    )
    # Between the two lines by hand there is no pynvml at all; the repair does both on a copy.
    assert commands_of(verdict.findings[0], tmp_path) == ["envdoctor repair --venv [TMP]/venv"]
    assert by_hand(verdict.findings[0], tmp_path) == [
        "uv pip uninstall --python [TMP]/venv/bin/python nvidia-ml-py3",
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package nvidia-ml-py "
        "nvidia-ml-py==12.570.86",
    ]
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache", hands=hands)
    assert verdict_of(venv.prefix).findings == ()
    assert (venv.site_packages / "pynvml.py").read_text() == "V = 'official'\n"


def test_br25_the_forks_uninstall_took_the_module_along(tmp_path: Path) -> None:
    venv, (_, fork, _) = _venv(tmp_path)
    install(venv, fork)
    uninstall(venv, "nvidia-ml-py3")
    assert not (venv.site_packages / "pynvml.py").exists()
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == (
        "ED201",
        "files of 1 distribution are missing, each at a path that another wheel writes too",
    )
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_br25_the_shim_is_worth_a_note(tmp_path: Path) -> None:
    venv, (_, _, shim) = _venv(tmp_path)
    install(venv, shim)
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == (
        "ED409",
        "pynvml 13.0.1 is a deprecated shim that runs at every start of this interpreter and warns at `import pynvml`",
    )
    assert (verdict.findings[0].severity, verdict.exit_code()) == ("note", 0)
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
    assert (venv.site_packages / "pynvml.py").exists()
