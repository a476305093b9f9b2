"""Every entry of a lock left out in turn: what the metadata says, beside what the interpreter says.

    python benchmarks/lock_holes.py PROFILE VENV [--imports torch,transformers] [--only NAME...]

VENV holds the locked stack and is not touched: a copy of hard links beside it loses the files of one distribution at a
time, and its Python imports each module in a process of its own. "hole": a distribution that is there requires the one
that is left out, so `check -p` (ED406) and the plan of a restore say so. MISSED: an import of something that is still
locked fails, and no hole is named. Without --imports nothing is run: for a stack that is not installed, VENV may be any
folder whose site-packages have the METADATA of the locked versions.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from envdoctor.analysis.unmet import unmet_among
from envdoctor.documents import profile_store
from envdoctor.probes.venv.distributions import Distribution, distribution_in
from envdoctor.stack.verify import equal
from envdoctor.standards.need import linux_markers
from envdoctor.swap.hardlinks import linked_copy


def main() -> int:
    """Print a line for each entry, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("venv", type=Path)
    parser.add_argument("--imports", default="")
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    file = profile_store.find(options.profile, Path.cwd())
    options.venv = options.venv.resolve()
    site = next(options.venv.glob("lib/python3*/site-packages"))
    python = site.parent.name.removeprefix("python")
    markers = {**linux_markers(python, os.uname().machine), "extra": ""}
    locked = file.lock.select(markers)
    there = {
        item.name: item
        for item in _installed(site)
        if item.name in locked and equal(item.version, locked[item.name].version)
    }
    print(f"{options.profile}, CPython {python}: {len(locked)} entries, metadata of {len(there)}")
    if lacking := sorted(locked.keys() - there.keys()):
        print(f"  what these require is not known: {', '.join(lacking)}")
    base = {(item.requirer.name, item.name) for item in unmet_among(there, markers)}
    modules = [name for name in options.imports.split(",") if name]
    with tempfile.TemporaryDirectory(prefix="lock-holes-", dir=options.venv.parent) as folder:
        copy = Path(folder, "venv")
        if modules:
            linked_copy(options.venv, copy)
            print(f"  imports of the whole stack: {_imports(copy, modules) or 'all work'}")
        counts = dict.fromkeys(
            ("hole, an import fails", "hole, the imports work", "no hole, the imports work", "MISSED"), 0
        )
        named = 0
        for name in options.only or sorted(locked):
            rest = {other: item for other, item in there.items() if other != name}
            holes = [item for item in unmet_among(rest, markers) if item.name == name]
            holes = [item for item in holes if (item.requirer.name, item.name) not in base]
            named += bool(holes)
            said = f"required by {', '.join(sorted({item.requirer.name for item in holes}))}" if holes else "no hole"
            failed = _without(copy, there[name], modules) if modules and name in there else {}
            # What is left out itself cannot be imported; a fault is what fails in something that is still locked.
            felt = {module: why for module, why in failed.items() if _owner(module, there) != name}
            kind = ("hole, " if holes else "no hole, ") + ("an import fails" if felt else "the imports work")
            kind = "MISSED" if felt and not holes else kind
            counts[kind] += 1
            print(f"  {name:32} {said:60} {'; '.join(f'{one}: {why}' for one, why in felt.items())}", flush=True)
    print(f"{named} of {len(options.only or locked)} are named as holes")
    if modules:
        print("; ".join(f"{kind}: {count}" for kind, count in counts.items()))
    return 0


def _installed(site: Path) -> Iterator[Distribution]:
    for folder in sorted(path.name for path in site.glob("*.dist-info")):
        if found := distribution_in(str(site), folder):
            yield found


def _owner(module: str, there: Mapping[str, Distribution]) -> str:
    name = module.partition(".")[0].replace("_", "-")
    return name if name in there else ""


def _without(copy: Path, item: Distribution, modules: list[str]) -> dict[str, str]:
    """Take the files of a distribution away, import, and put them back."""
    site = next(copy.glob("lib/python3*/site-packages"))
    rows = (site / item.folder / "RECORD").read_text(encoding="utf-8").splitlines()
    paths = [(site / row.rsplit(",", 2)[0].strip('"')) for row in rows]
    aside = Path(tempfile.mkdtemp(prefix="aside-", dir=copy.parent))
    moved = []
    for at, path in enumerate(paths):
        if path.is_file():
            path.rename(aside / str(at))
            moved.append((at, path))
    for folder in sorted(
        {parent for _, path in moved for parent in path.parents if site in parent.parents}, reverse=True
    ):
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        if not any(folder.iterdir()):
            folder.rmdir()  # else it is a package without a file in it, which no restore would make
    try:
        return _imports(copy, modules)
    finally:
        for at, path in moved:
            path.parent.mkdir(parents=True, exist_ok=True)
            (aside / str(at)).rename(path)
        shutil.rmtree(aside)


def _imports(copy: Path, modules: list[str]) -> dict[str, str]:
    """Return module -> the last line of what its import raised."""
    failed = {}
    for module in modules:
        done = subprocess.run(
            [copy / "bin" / "python", "-I", "-B", "-c", f"import {module}"],
            capture_output=True,
            text=True,
            check=False,
            cwd=copy.parent,
        )
        if done.returncode:
            failed[module] = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1][:90]
    return failed


if __name__ == "__main__":
    sys.exit(main())
