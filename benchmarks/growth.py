"""What a check costs as a venv grows: distributions without files, and rows of one RECORD.

    python benchmarks/growth.py                  1,000 to 40,000 distributions, 100,000 to 1,000,000 rows
    python benchmarks/growth.py --most 10000     a quicker look

Prints the processor's seconds (user and system) and the peak memory of a first `envdoctor check`, which remembers
nothing.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

DISTRIBUTIONS = (1_000, 5_000, 10_000, 20_000, 40_000)
ROWS = (100_000, 250_000, 499_000, 1_000_000)


def _venv(folder: Path) -> Path:
    site = folder / "venv/lib/python3.12/site-packages"
    site.mkdir(parents=True)
    (folder / "venv/bin").mkdir()
    (folder / "venv/bin/python").symlink_to(os.path.realpath(sys.executable))
    home = Path(os.path.realpath(sys.executable)).parent
    (folder / "venv/pyvenv.cfg").write_text(f"home = {home}\nversion = 3.12.1\n")
    return site


def _distribution(site: Path, name: str, rows: str = "") -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "RECORD").write_text(f"{info.name}/METADATA,,\n{info.name}/RECORD,,\n{rows}")


def _check(folder: Path) -> tuple[float, int, int]:
    """Return processor seconds, megabytes and the exit code of one check."""
    home = folder / "home"
    home.mkdir(exist_ok=True)
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "envdoctor", "check", str(folder / "venv")]
    null = os.open(os.devnull, os.O_WRONLY)
    actions = [(os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2)]
    pid = os.posix_spawn(sys.executable, command, environ, file_actions=actions)
    _, status, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime, used.ru_maxrss >> 10, os.waitstatus_to_exitcode(status)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=1_000_000, help="leave out what is larger")
    most = parser.parse_args().most
    print("what                      processor    peak   exit")
    for kind, sizes in (("distributions", DISTRIBUTIONS), ("rows of a RECORD", ROWS)):
        for size in (size for size in sizes if size <= most):
            folder = Path(tempfile.mkdtemp(prefix="growth-"))
            try:
                site = _venv(folder)
                if kind == "distributions":
                    for at in range(size):
                        _distribution(site, f"d{at}")
                else:
                    _distribution(site, "many", "".join(f"many/{at}.py,,\n" for at in range(size)))
                seconds, megabytes, code = _check(folder)
                print(f"{size:>9,} {kind:<16} {seconds:8.1f} s {megabytes:5} MB {code:>4}", flush=True)
            finally:
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
