"""What a user put into a venv's folder, as against what wheels and tools made there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from envdoctor.facts.folders import walk
from envdoctor.swap.unmanaged_files import listed_files, unmanaged_files, unrecorded

SITE = "lib/python3.11/site-packages"


@pytest.fixture
def venv(tmp_path: Path) -> Path:
    record = (
        "torch/lib.so,,\n"
        '"torch/a ""quoted"", name.py",,\n'
        "../../../LICENSE.txt,,\n"
        "../../../nvvm/bin/cicc,,\n"
        "../../../bin/tool,,\n"
        "torch-2.0.dist-info/METADATA,,\n"
    )
    for name, text in {
        f"{SITE}/torch-2.0.dist-info/RECORD": record,
        f"{SITE}/torch-2.0.dist-info/METADATA": "Name: torch\n",
        f"{SITE}/torch/lib.so": "x",
        f'{SITE}/torch/a "quoted", name.py': "x",
        "LICENSE.txt": "x",
        "nvvm/bin/cicc": "x",
        "bin/tool": "x",
        "bin/python": "x",
        "pyvenv.cfg": "home = /usr/bin\n",
        ".envdoctor/venv/journal.json": "{}",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_what_wheels_and_tools_made_is_managed(venv: Path) -> None:
    (venv / ".installed").touch()
    (venv / "torchinductor_me").mkdir()
    assert unmanaged_files(venv, listed_files(venv)) == []
    assert unrecorded(venv) == []


def test_what_a_user_put_there_is_not(venv: Path) -> None:
    (venv / "data").mkdir()
    (venv / "notes.md").write_text("x")
    (venv / SITE / "torch/patched.py").write_text("x")
    (venv / SITE / "torch/empty.py").touch()
    (venv / SITE / "torch/link.py").symlink_to("lib.so")
    assert unmanaged_files(venv, listed_files(venv)) == ["data", "notes.md"]
    assert unrecorded(venv) == [f"{SITE}/torch/patched.py", "notes.md"]


def test_a_users_file_with_a_name_like_a_tools_is_the_users(venv: Path) -> None:
    info = f"{SITE}/torch-2.0.dist-info"
    mine = [
        "bin/activate_cluster.sh",
        "bin/python_train.sh",
        "bin/pythonrc.py",
        "bin/sub/python",
        f"{SITE}/_virtualenv.patch",
        f"{info}/notes.txt",
        f"{info}/notes/METADATA",
    ]
    tools = [
        *(f"bin/{name}" for name in ("python3", "python3.13t", "activate", "activate.fish", "Activate.ps1")),
        *(f"bin/{name}" for name in ("activate_this.py", "deactivate.bat", "pydoc.bat")),
        *(f"{SITE}/{name}" for name in ("_virtualenv.py", "_virtualenv.pth", "~orch/lib/libtorch.so")),
        *(f"{info}/{name}" for name in ("INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json")),
    ]
    for name in (*mine, *tools):
        (venv / name).parent.mkdir(parents=True, exist_ok=True)
        (venv / name).write_text("x")
    assert unrecorded(venv) == sorted(mine)


def test_what_a_damaged_record_would_list_counts_as_the_users(venv: Path) -> None:
    record = venv / SITE / "torch-2.0.dist-info/RECORD"
    record.write_text('torch/lib.so,,\n"torch/a\n../../../bin/tool,,\nnot a row\n')
    assert unmanaged_files(venv, listed_files(venv)) == ["LICENSE.txt"]
    assert unrecorded(venv) == ["LICENSE.txt", f'{SITE}/torch/a "quoted", name.py', "nvvm/bin/cicc"]
    record.unlink()
    record.mkdir()
    assert "bin/tool" in unrecorded(venv)


def test_a_compile_cache_is_not_looked_into_where_it_does_not_count(venv: Path) -> None:
    for inner in ("torchinductor_me/ab", ".triton", f"{SITE}/fxgraph"):
        (venv / inner).mkdir(parents=True)
        (venv / inner / "graph").write_text("x")
    assert unrecorded(venv, caches=False) == [f"{SITE}/fxgraph/graph"]
    assert unrecorded(venv) == [".triton/graph", f"{SITE}/fxgraph/graph", "torchinductor_me/ab/graph"]


def test_what_goes_while_it_is_looked_at_is_nobodys(venv: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job beside the restore removes its temporary files and folders."""
    for name in ("share/going", "share/staying", "share/folder/going"):
        (venv / name).parent.mkdir(parents=True, exist_ok=True)
        (venv / name).write_text("x")

    def meanwhile(top: Path) -> Iterator[tuple[str, list[str], list[str]]]:
        for at, folders, files in walk(top):
            if "going" in files:
                Path(at, "going").unlink()
            if at.endswith("folder"):
                Path(at).rmdir()
                Path(at).write_text("a file by now")
            yield at, folders, files

    monkeypatch.setattr("envdoctor.swap.unmanaged_files.walk", meanwhile)
    assert unrecorded(venv) == ["share/staying"]
