"""`envdoctor restore` beside a fresh `uv venv` and `uv pip sync` of the same lock: wall time, in one run, interleaved.

    python benchmarks/restore_speed.py PROFILE [--rounds N] [--incident] [--cold] [--known-only] [--folder DIR]
        [--python PYTHON]

The restore replaces the venv of the round before, as a user's does (--fresh: there is none); with --incident that venv
has first received the CUDA 13 wheels that broke a CUDA 12 stack. Each round restores twice: with what earlier ones read
known, and with `--verify all`, beside `openssl dgst -sha256` of the same files on all cores. Its phases are its own
figures: "before verification" is the whole process less the phase that compares files with their hashes. --known-only
leaves out what reads every file: `--verify all` and openssl.

Processor seconds (user and system, children included) stand beside the wall's: on a shared machine they are the ones to
compare.

Warm: the first, unmeasured round of each fills uv's cache and the page cache; uv then runs with --offline --no-deps
--require-hashes, which is as fast as it gets and does not verify installed files. Cold: each starts with an empty uv
cache of its own and fetches every wheel; who goes first alternates. DIR must lie on the file system of uv's cache, or
uv copies instead of linking.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from uv import find_uv_bin

from envdoctor.documents import profile_store

# The CUDA 13 builds that torch 2.11.0 pins, which write the paths of their CUDA 12 siblings.
INCIDENT = (
    "nvidia-cudnn-cu13==9.19.0.56",
    "nvidia-cusparselt-cu13==0.8.0",
    "nvidia-nccl-cu13==2.28.9",
    "nvidia-nvshmem-cu13==3.4.5",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What is measured, and where."""

    folder: Path
    lock: Path
    profile: str
    python: str
    incident: bool
    cold: bool
    fresh: bool
    known_only: bool

    @property
    def interpreter(self) -> tuple[str, ...]:
        """The option that names the interpreter, for both."""
        return ("--python", self.python) if self.python else ()

    def environment(self, who: str) -> dict[str, str]:
        """Return the variables to run with; cold, an empty cache of its own.

        pip's configuration is left out: uv does not read it, and both are to ask the same sources.
        """
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
        environ |= {"UV_PYTHON_DOWNLOADS": "never", "PIP_CONFIG_FILE": os.devnull}
        if not self.cold:
            return environ
        cache = self.folder / f"cache-{who}"
        shutil.rmtree(cache, ignore_errors=True)
        return {**environ, "UV_CACHE_DIR": str(cache)}


class Spent(NamedTuple):
    """Seconds by the wall and of the processors."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """One restore."""

    whole: Spent
    phases: dict[str, float]

    @property
    def before_verification(self) -> float:
        """Return the wall time less the comparing of files with their hashes."""
        return self.whole.wall - self.phases["verify"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round."""

    uv: Spent
    known: Restored
    everything: Restored | None
    openssl: Spent | None


def main() -> int:
    """Print a table and the two ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--incident", action="store_true")
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--known-only", action="store_true")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--python", default="")
    options = parser.parse_args()
    file = profile_store.find(options.profile, Path.cwd())
    with tempfile.TemporaryDirectory(prefix="restore-speed-", dir=options.folder) as name:
        bench = Bench(
            folder=Path(name),
            lock=file.lock_path,
            profile=options.profile,
            python=options.python,
            incident=options.incident,
            cold=options.cold,
            fresh=options.fresh,
            known_only=options.known_only,
        )
        if not bench.cold:
            with_uv(bench, online=True)
            with_envdoctor(bench)
        rounds = [one_round(bench, number) for number in range(options.rounds)]
    show(bench, rounds)
    return 0


def one_round(bench: Bench, number: int) -> Round:
    """Make the venv with uv and restore over the other one; every other round the restore goes first."""
    if number % 2:
        known = with_envdoctor(bench)
        plain = with_uv(bench)
    else:
        plain = with_uv(bench)
        known = with_envdoctor(bench)
    if bench.known_only:
        return Round(uv=plain, known=known, everything=None, openssl=None)
    everything = with_envdoctor(bench, "--verify", "all")
    return Round(uv=plain, known=known, everything=everything, openssl=with_openssl(bench))


def with_openssl(bench: Bench) -> Spent:
    """Hash the files of uv's venv, the largest first, one process a core."""
    files = sorted((path for path in (bench.folder / "fresh").rglob("*") if path.is_file()), key=size, reverse=True)
    names = "\0".join(map(str, files)).encode()
    with spending() as spent:
        subprocess.run(
            ["xargs", "-0", "-n", "200", "-P", str(len(os.sched_getaffinity(0))), "openssl", "dgst", "-sha256"],
            input=names,
            stdout=subprocess.DEVNULL,
            check=True,
        )
    return spent[0]


def size(path: Path) -> int:
    """Return the bytes of a file."""
    return path.stat().st_size


@contextmanager
def spending() -> Iterator[list[Spent]]:
    """Give a list that holds what the block's child processes spent."""
    spent: list[Spent] = []
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    yield spent
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    spent.append(Spent(wall=time.monotonic() - began, cpu=cpu))


def with_uv(bench: Bench, *, online: bool = False) -> Spent:
    """Make a fresh venv with uv."""
    fresh = bench.folder / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    environ = bench.environment("uv")
    uv = find_uv_bin()
    sync = ("--require-hashes", "--python", fresh / "bin" / "python", "--index-strategy", "unsafe-best-match")
    offline = () if online or bench.cold else ("--offline",)
    with spending() as spent:
        run(environ, uv, "venv", "--quiet", "--no-project", *bench.interpreter, fresh)
        run(environ, uv, "pip", "sync", "--quiet", *sync, *offline, bench.lock)
    return spent[0]


def with_envdoctor(bench: Bench, *more: str) -> Restored:
    """Restore over the venv of the round before."""
    venv = bench.folder / "venv"
    if bench.fresh:
        shutil.rmtree(venv, ignore_errors=True)
    if bench.incident and venv.exists():
        environ = dict(os.environ)
        run(environ, find_uv_bin(), "pip", "install", "--no-deps", "--python", venv / "bin" / "python", *INCIDENT)
    environ = bench.environment("envdoctor")
    command = ("restore", "--profile", bench.profile, "--venv", venv, "--yes", "--force", "--json")
    with spending() as spent:
        told = run(environ, sys.executable, "-m", "envdoctor", *command, *bench.interpreter, *more)
    run(environ, sys.executable, "-m", "envdoctor", "prune", "--keep", "0", "--venv", venv, "--yes")
    return Restored(whole=spent[0], phases=json.loads(told)["result"]["seconds"])


def run(environ: Mapping[str, str], *command: str | Path) -> str:
    """Run a command and return its stdout; a failure ends the benchmark with what it said."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, env=environ)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def show(bench: Bench, rounds: list[Round]) -> None:
    """Print medians, and the medians of the ratios within a round."""
    options = [("cold", bench.cold), ("after the incident", bench.incident), ("no venv before", bench.fresh)]
    what = ", ".join([bench.profile, *(name for name, there in options if there)])
    print(f"{what}, {len(rounds)} rounds, medians; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
    print(f"{'':44}   wall  ratio    cpu  ratio")
    row("uv venv + uv pip sync", [(one.uv, one.uv) for one in rounds])
    row("envdoctor restore, all known", [(one.known.whole, one.uv) for one in rounds])
    read = [(one, one.everything, one.openssl) for one in rounds if one.everything and one.openssl]
    if read:
        row("envdoctor restore --verify all", [(everything.whole, one.uv) for one, everything, _ in read])
    before = [one.known.before_verification for one in rounds]
    ratio = statistics.median(one.known.before_verification / one.uv.wall for one in rounds)
    print(f"{'all known, before verification':44} {statistics.median(before):6.2f} {ratio:6.2f}")
    if read:
        wall = statistics.median(openssl.wall for _, _, openssl in read)
        rate = statistics.median(openssl.wall / everything.phases["verify"] for _, everything, openssl in read)
        print(f"{'openssl dgst -sha256, all cores':44} {wall:6.2f}; verify of --verify all at {rate:.2f} of its rate")
    kinds = (("all known", [one.known for one in rounds]), ("all read", [everything for _, everything, _ in read]))
    for name, done in ((name, done) for name, done in kinds if done):
        phases = {phase: statistics.median(one.phases[phase] for one in done) for phase in done[0].phases}
        rest = statistics.median(one.whole.wall - sum(one.phases.values()) for one in done)
        print(f"{name}: start and plan {rest:.2f}, " + ", ".join(f"{at} {value:.2f}" for at, value in phases.items()))
    print(
        "each round (uv, all known): " + "; ".join(f"{one.uv.wall:.2f}, {one.known.whole.wall:.2f}" for one in rounds)
    )


def row(name: str, pairs: list[tuple[Spent, Spent]]) -> None:
    """Print what was spent, beside uv of the same round."""
    wall, cpu = (statistics.median(one[at] for one, _ in pairs) for at in (0, 1))
    ratios = [statistics.median(one[at] / uv[at] for one, uv in pairs) for at in (0, 1)]
    print(f"{name:44} {wall:6.2f} {ratios[0]:6.2f} {cpu:6.2f} {ratios[1]:6.2f}")


if __name__ == "__main__":
    sys.exit(main())
