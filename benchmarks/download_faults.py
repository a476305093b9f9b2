"""A restore that is killed, or whose disk fills up, while wheels are being downloaded: what the venv is afterwards.

    python benchmarks/download_faults.py kill PROFILE --python PYTHON --folder DIR [--trials 20] [--seed 0]
    python benchmarks/download_faults.py full PROFILE --python PYTHON --folder DIR [--trials 10] [--seed 0]

kill: SIGKILL to the restore at a random time after its downloads have begun. uv's cache (DIR/cache, empty at first) is
kept, so that the next trial goes on where this one ended, until it holds the whole stack; then it is emptied.
full: venv and cache lie on a tmpfs; at a random time of the download another file takes what is free. Needs root.

An old venv stands where the new one is to be. After each trial it must be as it was, byte for byte and inode for inode,
no uv may be running, and nothing may lie beside it but the hidden folder of its backups. At the end one more restore is
let through, verified by `check --deep`, and rolled back to the old venv. One JSON line a trial; the counts come last.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from uv import find_uv_bin


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where the trials happen."""

    folder: Path
    profile: str
    python: str

    @property
    def venv(self) -> Path:
        """The venv that is to be replaced."""
        return self.folder / "home" / "venv"

    @property
    def cache(self) -> Path:
        """Of uv."""
        return self.folder / "cache"

    @property
    def environment(self) -> dict[str, str]:
        """The user's, with a cache and a TMPDIR of its own."""
        own = {"UV_CACHE_DIR": str(self.cache), "TMPDIR": str(self.folder / "tmp"), "UV_PYTHON_DOWNLOADS": "never"}
        return {**os.environ, **own}

    def command(self, *arguments: str) -> list[str]:
        """Return the command line of one of envdoctor's commands."""
        return [sys.executable, "-m", "envdoctor", *arguments]

    @property
    def restore(self) -> list[str]:
        """Return the restore that is disturbed."""
        named = ("--profile", self.profile, "--venv", str(self.venv), "--python", self.python)
        return self.command("restore", *named, "--yes", "--force")

    def prepare(self) -> str:
        """Make the old venv; return its digest."""
        for folder in (self.venv.parent, self.folder / "tmp", self.cache):
            folder.mkdir(parents=True, exist_ok=True)
        made = [find_uv_bin(), "venv", "--quiet", "--no-project", "--python", self.python, str(self.venv)]
        subprocess.run(made, env=self.environment, check=True)
        (self.venv / "lib" / "mine.txt").write_text("the old one\n")
        return tree(self.venv)


def main() -> int:
    """Run the trials."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fault", choices=("kill", "full"))
    parser.add_argument("profile")
    parser.add_argument("--python", required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--trials", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", default="1500m", help="of the tmpfs")
    parser.add_argument("--longest", type=float, default=12.0, help="seconds from the first download to the fault")
    options = parser.parse_args()
    draw = random.Random(options.seed)  # noqa: S311 - when a fault comes, not a secret
    options.folder.mkdir(parents=True, exist_ok=True)
    scene = Scene(folder=options.folder.resolve(), profile=options.profile, python=options.python)
    counts: Counter[str] = Counter()
    with small_disk(scene.folder, options.size) if options.fault == "full" else nothing():
        before = scene.prepare()
        for number in range(options.trials or (20 if options.fault == "kill" else 10)):
            wait = draw.uniform(0.05, options.longest)
            found = killed(scene, wait) if options.fault == "kill" else filled(scene, wait)
            found |= aftermath(scene, before)
            counts[str(found["venv"])] += 1
            counts["trouble"] += bool(found["trouble"])
            print(json.dumps({"trial": number + 1, "after": round(wait, 2), **found}), flush=True)
            if found["ended"] == "by itself" or options.fault == "full":
                fresh(scene, before)
        whole = last(scene, before)
    print(json.dumps({**counts, **whole}), flush=True)
    return 0


def killed(scene: Scene, wait: float) -> dict[str, object]:
    """Start a restore, kill it `wait` seconds after its downloads began."""
    process = subprocess.Popen(
        scene.restore, env=scene.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    heard = until_downloads(process)
    try:
        process.wait(wait)
        ended = "by itself"
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        ended = "killed"
    heard += process.communicate()[1].splitlines()
    return {"ended": ended, "exit": process.returncode, "said": heard[-1] if heard else "", "cached": cached(scene)}


def filled(scene: Scene, wait: float) -> dict[str, object]:
    """Start a restore, and fill its disk `wait` seconds after its downloads began."""
    process = subprocess.Popen(
        scene.restore, env=scene.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    heard = until_downloads(process)
    other = scene.folder / "other.bin"
    other.touch()
    try:
        process.wait(wait)
    except subprocess.TimeoutExpired:
        with other.open("wb", buffering=0) as file:
            while process.poll() is None:
                try:
                    free = os.statvfs(scene.folder).f_bavail * os.statvfs(scene.folder).f_frsize
                    file.write(b"\0" * min(max(free, 4096), 64 * 1024 * 1024))
                except OSError:
                    time.sleep(0.005)
    heard += process.communicate()[1].splitlines()
    other.unlink(missing_ok=True)
    told = [line for line in heard if line.startswith("error:")]
    ended = "by itself" if process.returncode == 0 else "full"
    return {"ended": ended, "exit": process.returncode, "said": told[-1] if told else "", "cached": cached(scene)}


def until_downloads(process: "subprocess.Popen[str]") -> list[str]:
    """Read what a restore says until it fetches; return the lines."""
    assert process.stderr is not None
    heard = []
    for line in process.stderr:
        heard.append(line.rstrip())
        if line.startswith("Download"):
            break
    return heard


def aftermath(scene: Scene, before: str) -> dict[str, object]:
    """Return what the venv is, and what else is not as it must be."""
    time.sleep(0.5)  # the kernel ends uv with its parent
    trouble = [f"running: {line}" for line in running(scene.cache)]
    now = tree(scene.venv)
    state = "as it was" if now == before else "new" if (scene.venv / "envdoctor.json").exists() else "other"
    trouble += [
        f"beside it: {path.name}" for path in scene.venv.parent.iterdir() if path.name not in ("venv", ".envdoctor")
    ]
    return {"venv": state, "trouble": trouble + ([] if state == "as it was" or now else ["no venv"])}


def fresh(scene: Scene, before: str) -> None:
    """Begin again with the old venv and an empty cache."""
    shutil.rmtree(scene.cache, ignore_errors=True)
    scene.cache.mkdir()
    if tree(scene.venv) != before:
        subprocess.run(
            scene.command("rollback", "--venv", str(scene.venv), "--yes"),
            env=scene.environment,
            check=True,
            capture_output=True,
        )
        subprocess.run(
            scene.command("prune", "--venv", str(scene.venv), "--keep", "0", "--yes"),
            env=scene.environment,
            check=True,
            capture_output=True,
        )
        assert tree(scene.venv) == before


def last(scene: Scene, before: str) -> dict[str, int]:
    """Let a restore through, verify it, and roll it back."""
    done = subprocess.run(scene.restore, env=scene.environment, capture_output=True, text=True, check=False)
    checked = scene.command("check", str(scene.venv), "--profile", scene.profile, "--deep")
    whole = subprocess.run(checked, env=scene.environment, capture_output=True, check=False).returncode == 0
    rolled = scene.command("rollback", "--venv", str(scene.venv), "--yes")
    back = subprocess.run(rolled, env=scene.environment, capture_output=True, check=False).returncode == 0
    builds = scene.venv.parent / ".envdoctor" / "venv" / "builds"
    left = [path for folder in (builds, scene.folder / "tmp") if folder.is_dir() for path in folder.iterdir()]
    print(json.dumps({"last": done.returncode, "left": [path.name for path in left]}), flush=True)
    return {
        "last restore let through": int(done.returncode == 0),
        "verified by check --deep": int(whole),
        "rolled back to the old venv": int(back and tree(scene.venv) == before),
        "left over": len(left),
    }


def cached(scene: Scene) -> int:
    """Return the bytes in uv's cache."""
    return sum(path.lstat().st_size for path in scene.cache.rglob("*") if path.is_file())


def running(cache: Path) -> list[str]:
    """Return the command lines of processes that work in that cache."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environ = (process / "environ").read_bytes()
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"UV_CACHE_DIR={cache}".encode() in environ and int(process.name) != os.getpid():
            found.append(command)
    return found


def tree(folder: Path) -> str:
    """Return a digest of every path, inode, mode, time and content below a folder; empty where there is none."""
    if not folder.is_dir():
        return ""
    digest = hashlib.sha256()
    for path in sorted([folder, *folder.rglob("*")]):
        status = path.lstat()
        digest.update(f"{path} {status.st_ino} {status.st_mode} {status.st_mtime_ns}\n".encode())
        if path.is_file() and not path.is_symlink():
            digest.update(path.read_bytes())
    return digest.hexdigest()


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """Mount a tmpfs over the folder."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@contextmanager
def nothing() -> Iterator[None]:
    """Take the place of a file system that is not needed."""
    yield


if __name__ == "__main__":
    sys.exit(main())
