"""A pipe that a file of requirements names is seen in each way to write it, before uv waits there."""

import os
from pathlib import Path

import pytest

from envdoctor.foreign_locks.local_files import local_files
from envdoctor.wheels.read_whole import first_special

NAME = "twin-1.0-py3-none-any.whl"
LINES = (
    "twin @ file://{folder}/{name}",
    "twin@file://{folder}/{name}",
    "twin[all]@file://{folder}/{name}",
    "twin @ file://localhost{folder}/{name}",
    "twin @ file://{folder}/{name}#sha256=00 --hash=sha256:00",
    "twin @ file://{folder}/{name};python_version>'3'",
    "twin @ file://{folder}/{name} ; python_version > '3'  # a note",
    "twin @ file://{folder}/twin-1.0-py3-none%2Dany.whl",
    "twin @ file://${{HERE}}/{name}",
    "twin @ file://${{PROJECT_ROOT}}/{name}",
    "{name}",
    "./{name}[all]",
    "./{name};python_version>'3'",
    "{folder}/{name} --hash=sha256:00",
    "-e ./{name}",
    "--editable=./{name}",
    "-f ./{name}",
    "-r {name}",
    "-r{name}",
    "--requirement={name}",
    "--constraint {name}",
)


@pytest.mark.parametrize("nested", ["", "-r", "-c", "--requirement="])
@pytest.mark.parametrize("line", LINES)
def test_each_form(tmp_path: Path, line: str, nested: str) -> None:
    text = f"numpy==2.0 \\\n    --hash=sha256:00\n{line.format(folder=tmp_path, name=NAME)}\n"
    if nested:
        (tmp_path / "in.txt").write_text(text)
        text = f"{nested}in.txt\n" if nested.endswith("=") else f"{nested} in.txt\n"
    pipe, environ = tmp_path / NAME, {"HERE": str(tmp_path)}
    pipe.touch()
    assert first_special(local_files(text, tmp_path, environ)) is None
    pipe.unlink()
    os.mkfifo(pipe)
    found = first_special(local_files(text, tmp_path, environ))
    assert found is not None
    assert found.samefile(pipe)


def test_a_pipe_that_no_line_names(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    text = f"# ./{NAME}\ntwin==1.0 --hash=sha256:00\n-r in.txt\n-c /dev/null\n"
    (tmp_path / "in.txt").write_text("-r in.txt\n-r gone.txt\nother==1.0\n")
    assert first_special(local_files(text, tmp_path, {})) is None


def test_a_long_line_is_no_long_work(tmp_path: Path) -> None:
    paths = list(local_files(f"{'a@' * 1_000_000}b.whl\n{'a/' * 3_000}@b.whl", tmp_path, {}))
    assert len(paths) < 100
