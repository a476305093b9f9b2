"""The lines that locks and profiles say things at."""

import pytest

from envdoctor.documents.lines import key_lines, pinned_lines
from tests.factories.run_envdoctor import ROOT


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "# torch==1\n\nTorch_X[a, b] == 2 \\\n  --hash=sha256:0\nsix==1 ; python_version<'4'\n",
            {"torch-x": 3, "six": 5},
        ),
        ('[[package]]\nname = "torch"\nversion = "2"\n[[package]]\nname = "six"\n', {"torch": 2, "six": 5}),
        ("package:\n- name: torch\n  version: 2\n- name: 'six'\n", {"torch": 2, "six": 4}),
        ("six==1 ; sys_platform=='x'\nsix==2\n", {"six": 1}),
    ],
    ids=["requirements", "uv, Poetry, PDM and PEP 751", "conda-lock", "the first of several"],
)
def test_pinned_lines(text: str, found: dict[str, int]) -> None:
    assert pinned_lines(text) == found


def test_key_lines() -> None:
    text = 'name = "x"\n[torch]\nversion = "2"\n\n[libraries]\n"libcudnn.so.9" = "a"\n[environment.set]\nX = "1"\n'
    assert key_lines(f"{text}[[waivers]]\n") == {
        "name": 1,
        "torch": 2,
        "torch.version": 3,
        "libraries": 5,
        "libraries.libcudnn.so.9": 6,
        "environment.set": 7,
        "environment.set.X": 8,
        "waivers": 9,
    }


def test_every_line_of_a_shipped_lock_that_pins_is_found() -> None:
    text = (ROOT / "lockfiles/cpu-smoke.txt").read_text()
    pins = [line for line in text.splitlines() if "==" in line and not line.startswith("#")]
    assert len(pinned_lines(text)) == len(pins)
