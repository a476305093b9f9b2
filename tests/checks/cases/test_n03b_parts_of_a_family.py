"""transformer-engine's parts are pinned by an extra, which no metadata asks for; its import asserts equal versions."""

from pathlib import Path

from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.interpreter import raised
from tests.factories.make_venv import Venv, make_venv, run_uv
from tests.factories.make_wheel import make_wheel

INIT = """import importlib.metadata as m
a, b = m.version("transformer-engine"), m.version("transformer-engine-torch")
assert a == b, f"TransformerEngine package version mismatch. Found transformer_engine_torch v{b}, engine v{a}"
"""


def _torch_part(root: Path, version: str) -> Path:
    return make_wheel(
        root / "wheels", "transformer-engine-torch", version, files={"transformer_engine/pytorch/__init__.py": ""}
    )


def _venv(root: Path, version: str) -> Venv:
    common = {"transformer_engine/common/__init__.py": ""}
    engine = make_wheel(
        root / "wheels",
        "transformer-engine",
        "2.9.0",
        requires=["transformer-engine-cu12==2.9.0", 'transformer-engine-torch==2.9.0; extra == "pytorch"'],
        metadata_lines=["Provides-Extra: pytorch"],
        files={"transformer_engine/__init__.py": INIT},
    )
    cuda = make_wheel(root / "wheels", "transformer-engine-cu12", "2.9.0", files=common)
    return make_venv(root / "venv", engine, cuda, _torch_part(root, version))


def test_n03b_a_part_that_an_extra_pins_has_another_version(tmp_path: Path) -> None:
    venv = _venv(tmp_path, "2.7.0")
    assert raised(venv.python, "import transformer_engine") == (
        "AssertionError: TransformerEngine package version mismatch. Found transformer_engine_torch v2.7.0, "
        "engine v2.9.0"
    )
    run_uv("pip", "check", "--python", venv.python, cache=tmp_path / ".uv-cache")
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED406 transformer-engine[pytorch] 2.9.0 requires transformer-engine-torch==2.9.0, and 2.7.0 is installed"
    ]
    assert verdict.findings[0].evidence[1] == (
        "transformer_engine/common/__init__.py compares the versions of its parts at import: "
        "`import transformer_engine` raises"
    )
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps transformer-engine-torch==2.9.0"
    ]
    _torch_part(tmp_path, "2.9.0")
    mend(verdict.findings[0], wheels=tmp_path / "wheels", cache=tmp_path / ".uv-cache")
    assert raised(venv.python, "import transformer_engine") == ""
    assert verdict_of(venv.prefix).findings == ()


def test_n03b_a_part_that_is_not_installed_is_not_asked_for(tmp_path: Path) -> None:
    venv = _venv(tmp_path, "2.9.0")
    run_uv("pip", "uninstall", "-q", "--python", venv.python, "transformer-engine-torch", cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
