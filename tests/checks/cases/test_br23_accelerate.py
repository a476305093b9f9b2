"""device_map needs accelerate: missing, or too old, with one text for both (huggingface/transformers issue 31583)."""

from dataclasses import replace
from pathlib import Path

from envdoctor.standards.lock import parse
from tests.factories import make_facts as facts
from tests.factories.examine_venv import commands_of, first, mend, outline, verdict_of
from tests.factories.make_torch import make_torch
from tests.factories.make_venv import Venv, install, make_venv, run_uv
from tests.factories.make_wheel import lock_text, make_wheel

TABLE = 'deps = {\n    "accelerate": "accelerate>=1.1.0",\n    "tokenizers": "tokenizers>=0.22.0,<=0.23.0",\n}\n'
RAISES = "`device_map`, `low_cpu_mem_usage` or `tp_plan` in from_pretrained() will raise, asking for accelerate>=1.1.0"
INSTALL = "uv pip install --python [TMP]/venv/bin/python 'accelerate>=1.1.0'"


def _venv(root: Path) -> Venv:
    transformers = make_wheel(
        root / "wheels",
        "transformers",
        "5.8.1",
        requires=['accelerate>=1.1.0; extra == "torch"'],
        metadata_lines=["Provides-Extra: torch"],
        files={"transformers/__init__.py": "", "transformers/dependency_versions_table.py": TABLE},
    )
    return make_venv(root / "venv", transformers)


def _metadata_is_clean(venv: Venv, root: Path) -> None:
    run_uv("pip", "check", "--python", venv.python, cache=root / ".uv-cache")


def test_br23_accelerate_is_missing(tmp_path: Path) -> None:
    venv = _venv(tmp_path)
    _metadata_is_clean(venv, tmp_path)
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == (
        "ED407",
        f"accelerate is not installed, which is needed by transformers 5.8.1: {RAISES}",
    )
    # Many stacks never call it: without a profile that is a note.
    assert (verdict.findings[0].severity, verdict.exit_code()) == ("note", 0)
    # Without a torch here its own requirement would bring one, of whatever build the index has.
    assert commands_of(verdict.findings[0], tmp_path) == [INSTALL.replace("python '", "python --no-deps '")]
    make_wheel(tmp_path / "wheels", "accelerate", "1.12.0", requires=["torch"])
    make_wheel(tmp_path / "wheels", "torch", "2.15.0")
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert first(verdict_of(venv.prefix), tmp_path) == (
        "ED406",
        "torch is not installed; accelerate 1.12.0 requires torch",
    )
    assert not list(venv.site_packages.glob("torch-*"))


def test_br23_accelerate_is_installed_and_too_old(tmp_path: Path) -> None:
    venv = _venv(tmp_path)
    install(venv, make_wheel(tmp_path / "wheels", "accelerate", "0.10.0"))
    _metadata_is_clean(venv, tmp_path)
    verdict = verdict_of(venv.prefix)
    assert first(verdict, tmp_path) == ("ED407", f"accelerate 0.10.0 is too old for transformers 5.8.1: {RAISES}")
    assert verdict.findings[0].severity == "warning"
    assert commands_of(verdict.findings[0], tmp_path) == [INSTALL]
    make_wheel(tmp_path / "wheels", "accelerate", "1.12.0")
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()


def test_br23_a_lock_that_pins_it_makes_it_an_error(tmp_path: Path) -> None:
    torch = make_torch(tmp_path / "wheels", "2.11.0", None)
    venv = _venv(tmp_path)
    install(venv, torch)
    accelerate = make_wheel(tmp_path / "wheels", "accelerate", "1.12.0")
    transformers = tmp_path / "wheels/transformers-5.8.1-py3-none-any.whl"
    profile = replace(
        facts.PROFILE,
        torch=replace(facts.PROFILE.torch, version="2.11.0", cuda=""),
        python=replace(facts.PROFILE.python, versions=("3.11", "3.12", "3.13", "3.14")),
    )
    lock = parse(lock_text(torch, transformers, accelerate), "good.txt")
    assert outline(verdict_of(venv.prefix, profile=profile, lock=lock), tmp_path) == [
        "error ED402 accelerate 1.12.0 is locked and not installed",
        f"  error ED407 accelerate is not installed, which is needed by transformers 5.8.1: {RAISES}",
    ]
    # A lock without it may be of a stack that never calls this.
    without = parse(lock_text(torch, transformers), "good.txt")
    (finding,) = verdict_of(venv.prefix, profile=profile, lock=without).findings
    assert (finding.code, finding.severity, finding.remediation.commands) == ("ED407", "note", ())
    assert finding.remediation.text == (
        "nothing, if this stack does not call that; else add accelerate>=1.1.0 to the lock"
    )
