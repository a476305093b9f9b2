"""Build what is published from the last commit, check it, test it as it will be installed, and put it into dist/.

Run by `make release`. Only what is committed counts: the files come from `git archive`, so that the same commit gives
the same bytes on any machine. Nothing is uploaded.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DIST = ROOT / "dist"
_GATE = """
import pathlib, sys
from envdoctor.gate_package.wheel import gate_wheel
wheel = gate_wheel()
pathlib.Path(sys.argv[1], wheel.filename).write_bytes(wheel.content)
"""
BIN = Path(sys.executable).parent


def _archive(folder: Path) -> Path:
    """Unpack the last commit into `folder`."""
    folder.mkdir()
    packed = folder.with_suffix(".tar")
    subprocess.run(["git", "archive", "--format=tar", f"--output={packed}", "HEAD"], cwd=ROOT, check=True)
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _build(source: Path, out: Path) -> dict[str, bytes]:
    """Build the source archive of `source`, and the wheel out of that archive; return file name -> bytes."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    subprocess.run([*command, "-t", "sdist"], cwd=source, check=True, stdout=subprocess.DEVNULL)
    with tarfile.open(next(out.glob("*.tar.gz"))) as archive:
        archive.extractall(source.with_suffix(".sdist"), filter="data")
    unpacked = next(source.with_suffix(".sdist").iterdir())
    subprocess.run([*command, "-t", "wheel"], cwd=unpacked, check=True, stdout=subprocess.DEVNULL)
    # The gate's wheel is made by the code of that commit, of its own source.
    subprocess.run([sys.executable, "-c", _GATE, str(out)], cwd=unpacked, check=True)
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def _refuse_uncommitted() -> None:
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True)
    if changed.stdout:
        told = "hint: commit it, or stash it: `git stash --include-untracked`"
        sys.exit(f"error: not committed, and so not in the release:\n{changed.stdout}\n{told}")


def _checked(folder: Path) -> None:
    files = sorted(str(path) for path in folder.iterdir())
    subprocess.run([str(BIN / "twine"), "check", "--strict", *files], check=True)
    wheels = [name for name in files if name.endswith(".whl")]
    subprocess.run([str(BIN / "check-wheel-contents"), *wheels], check=True)
    tested = next(name for name in wheels if Path(name).name.startswith("torch_envdoctor-"))
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "tests/release"],
        cwd=ROOT,
        env={**os.environ, "ENVDOCTOR_TEST_WHEEL": tested},
        check=True,
    )


def main() -> None:
    """Build twice, compare, check, test, and only then replace dist/. `--committed` only looks whether it can begin."""
    _refuse_uncommitted()
    if sys.argv[1:] == ["--committed"]:
        return
    with tempfile.TemporaryDirectory(prefix="envdoctor-release-") as name:
        work = Path(name)
        first, second = (_build(_archive(work / part), work / f"{part}.out") for part in ("a", "b"))
        if first != second:
            differing = sorted(name for name in first if first[name] != second.get(name))
            sys.exit(f"error: two builds of one commit differ: {', '.join(differing)}")
        _checked(work / "a.out")
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(work / "a.out", DIST)
    for name, content in first.items():
        print(f"{hashlib.sha256(content).hexdigest()}  dist/{name}")


if __name__ == "__main__":
    main()
