"""A lock leaves out what a locked distribution requires: everything locked is there, and `import torch` raises."""

from dataclasses import replace
from pathlib import Path

from envdoctor.model.profile import Waiver
from envdoctor.standards.lock import parse
from tests.factories import make_facts as facts
from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.interpreter import raised
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import make_venv
from tests.factories.make_wheel import lock_text, make_wheel

PROFILE = replace(
    facts.PROFILE,
    torch=replace(facts.PROFILE.torch, version="2.13.0+cpu", cuda=""),
    python=replace(facts.PROFILE.python, versions=("3.11", "3.12", "3.13", "3.14")),
)
TITLE = "error ED406 typing-extensions is not installed; torch 2.13.0+cpu requires typing-extensions>=4.10.0"


def test_a_lock_without_typing_extensions(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    torch = make_torch(
        wheels,
        "2.13.0+cpu",
        None,
        requires=["typing-extensions>=4.10.0"],
        files={"torch/__init__.py": "import typing_extensions\nfrom .version import __version__\n"},
    )
    venv = make_venv(tmp_path / "venv", torch)
    assert raised(venv.python, "import torch") == "ModuleNotFoundError: No module named 'typing_extensions'"
    lock = parse(lock_text(torch), "good.txt")
    verdict = verdict_of(venv.prefix, profile=PROFILE, lock=lock)
    # The profile makes the verdict no weaker than it is without one.
    assert outline(verdict, tmp_path) == [TITLE]
    assert outline(verdict_of(venv.prefix), tmp_path) == [TITLE]
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python 'typing-extensions>=4.10.0'"
    ]
    waiver = Waiver(code="ED406", subject="typing-extensions", reason="torch is never imported here")
    waived = verdict_of(venv.prefix, profile=replace(PROFILE, waivers=(waiver,)), lock=lock)
    assert (waived.findings, [item.reason for item in waived.waived]) == ((), ["torch is never imported here"])

    typing = make_wheel(wheels, "typing-extensions", "4.15.0", files={"typing_extensions.py": ""})
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert raised(venv.python, "import torch") == ""
    whole = parse(lock_text(torch, typing), "good.txt")
    assert verdict_of(venv.prefix, profile=PROFILE, lock=whole).findings == ()
