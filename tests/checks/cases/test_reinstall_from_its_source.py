"""A damaged distribution that was built from a local project is reinstalled from there: an index may have its name."""

from pathlib import Path

from tests.checks.cases.test_n10_editable_that_exposes_nothing import BACKEND, PROJECT
from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.interpreter import raised
from tests.factories.make_venv import make_venv, run_uv
from tests.factories.make_wheel import make_wheel

WHEEL = (
    BACKEND.replace("build_wheel = build_editable", "")
    + """

def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = build_editable(folder)
    info = "libero-0.1.0.dist-info"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as archive:
        rows = []
        for path, text in {
            "libero/__init__.py": "own = True\\n",
            f"{info}/METADATA": "Metadata-Version: 2.1\\nName: libero\\nVersion: 0.1.0\\n",
            f"{info}/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        }.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
            rows.append(f"{path},sha256={digest},{len(text.encode())}")
            archive.writestr(path, text)
        archive.writestr(f"{info}/RECORD", "\\n".join([*rows, f"{info}/RECORD,,"]) + "\\n")
    return name
"""
)


def test_a_damaged_local_project_is_not_taken_from_an_index(tmp_path: Path) -> None:
    project, wheels = tmp_path / "project", tmp_path / "wheels"
    project.mkdir()
    (project / "pyproject.toml").write_text(PROJECT)
    (project / "backend.py").write_text(WHEEL)
    venv = make_venv(tmp_path / "venv")
    run_uv("pip", "install", "-q", "--no-deps", "--python", venv.python, project, cache=tmp_path / ".uv-cache")
    assert raised(venv.python, "import libero; libero.own") == ""
    (venv.site_packages / "libero/__init__.py").unlink()
    # Somebody else's distribution of that name and version is on the index.
    make_wheel(wheels, "libero", "0.1.0", files={"libero/__init__.py": "stolen = True\n"})
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == ["error ED202 libero 0.1.0: 1 of 9 files missing"]
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps --reinstall-package libero "
        "'libero @ file://[TMP]/project'"
    ]
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert raised(venv.python, "import libero; libero.own") == ""
    assert verdict_of(venv.prefix).findings == ()
