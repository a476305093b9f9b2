"""Every entry of a lock left out in turn: what the metadata says, beside what the interpreter and `check` say.

    python benchmarks/lock_holes.py PROFILE VENV [--imports torch,transformers] [--only NAME...] [--folder DIR]

VENV holds the locked stack and is not touched: a copy of hard links in DIR (beside it, unless told) loses the files of
one distribution at a time. Its Python then imports the named modules, and every module of what requires the lost one,
each in a process of its own; `envdoctor check` judges the copy by a profile whose lock lacks the same entry. "hole": a
distribution that is there requires the one that is left out, so `check -p` (ED406) and the plan of a restore say so.
MISSED: an import of something that is still locked fails, and no hole is named. DISAGREES: ED406 names what is no hole,
or not what is one, or the check passes where an import fails. Without --imports nothing is run: for a stack that is not
installed, VENV may be any folder whose site-packages have the METADATA of the locked versions.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from envdoctor.analysis.unmet import unmet_among
from envdoctor.documents import profile_store
from envdoctor.documents.profile_store import ProfileRef
from envdoctor.probes.venv.distributions import Distribution, distribution_in
from envdoctor.stack.verify import equal
from envdoctor.standards.lock import Lock
from envdoctor.standards.need import linux_markers
from envdoctor.swap.hardlinks import linked_copy
from envdoctor.wheels.locking import text_of


def main() -> int:
    """Print a line for each entry, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("profile")
    parser.add_argument("venv", type=Path)
    parser.add_argument("--imports", default="")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--folder", type=Path, default=None)
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
    folder = options.folder or options.venv.parent
    with tempfile.TemporaryDirectory(prefix="lock-holes-", dir=folder) as made:
        copy = Path(made, "venv")
        offered: dict[str, list[str]] = {}
        if modules:
            linked_copy(options.venv, copy)
            print(f"  imports of the whole stack: {_imports(copy, modules) or 'all work'}", flush=True)
            offered = {name: _modules(site, item) for name, item in there.items()}
        counts = dict.fromkeys(
            ("hole, an import fails", "hole, the imports work", "no hole, the imports work", "MISSED", "DISAGREES"), 0
        )
        named = 0
        for name in options.only or sorted(locked):
            rest = {other: item for other, item in there.items() if other != name}
            holes = [item for item in unmet_among(rest, markers) if item.name == name]
            holes = [item for item in holes if (item.requirer.name, item.name) not in base]
            named += bool(holes)
            requirers = list(dict.fromkeys(sorted(item.requirer.name for item in holes)))
            said = f"required by {', '.join(requirers)}" if holes else "no hole"
            felt: dict[str, str] = {}
            checked = ""
            if modules and name in there:
                every = dict.fromkeys([*modules, *(one for other in requirers for one in offered[other])])
                # What is left out itself cannot be imported; a fault is what fails in something still locked.
                asked = [module for module in every if module not in offered[name]]
                felt, checked = _tried(copy, there[name], asked, file, hole=bool(holes))
                counts["DISAGREES"] += bool(checked)
            kind = ("hole, " if holes else "no hole, ") + ("an import fails" if felt else "the imports work")
            kind = "MISSED" if felt and not holes else kind
            counts[kind] += 1
            checked += "; ".join(f"{one}: {text}" for one, text in felt.items())
            print(f"  {name:32} {said:60} {checked}".rstrip(), flush=True)
    print(f"{named} of {len(options.only or locked)} are named as holes")
    print("; ".join(f"{kind}: {count}" for kind, count in counts.items() if modules))
    return 0


def _tried(
    copy: Path, item: Distribution, modules: list[str], file: ProfileRef, *, hole: bool
) -> tuple[dict[str, str], str]:
    """Import without a distribution, and check; return what failed, and what `check` says otherwise."""
    with _without(copy, item):
        felt = _imports(copy, modules)
        code, subjects = _checked(copy, file, item.name)
    # What fails in the whole stack, too, is not for want of it.
    felt = {module: why for module, why in felt.items() if why != _imports(copy, [module]).get(module)}
    if (item.name in subjects) == hole and not (felt and code == 0):
        return felt, ""
    return felt, f"DISAGREES: check ended with {code}, ED406 names {', '.join(subjects) or 'nothing'}; "


def _modules(site: Path, item: Distribution) -> list[str]:
    """Return the modules of a distribution that are in no package: packages in a namespace among them."""
    paths = [Path(path) for path in _recorded(site, item) if path.endswith((".py", ".so")) and ".." not in path]
    packages = {path.parent for path in paths if path.name == "__init__.py"}
    tops = {path for path in packages if not packages & set(path.parents)}
    names = {".".join(path.parts) for path in tops}
    names |= {path.name.partition(".")[0] for path in paths if len(path.parts) == 1}
    return sorted(name for name in names if not name.startswith("_") and name.replace(".", "").isidentifier())


def _recorded(site: Path, item: Distribution) -> list[str]:
    rows = (site / item.folder / "RECORD").read_text(encoding="utf-8").splitlines()
    return [row.rsplit(",", 2)[0].strip('"') for row in rows]


def _checked(copy: Path, file: ProfileRef, lacking: str) -> tuple[int, list[str]]:
    """Check the copy by a profile whose lock lacks one entry; return the exit code and what ED406 is about."""
    profile, lock = copy.parent / "profiles" / file.path.name, copy.parent / "lockfiles" / file.lock_path.name
    for path in (profile, lock):
        path.parent.mkdir(exist_ok=True)
    profile.write_text(file.path.read_text())
    rest = Lock(name="part", packages=tuple(one for one in file.lock.packages if one.name != lacking))
    lock.write_text(text_of(rest, "made for a benchmark"))
    done = subprocess.run(
        [sys.executable, "-m", "envdoctor", "check", copy, "--profile", profile, "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise SystemExit(f"check ended with {done.returncode}: {done.stderr}")
    told: dict[str, Any] = json.loads(done.stdout)
    findings = [one for one in told["findings"] if one["code"] == "ED406"]
    return done.returncode, sorted({one["subject"] for one in findings})


def _installed(site: Path) -> Iterator[Distribution]:
    for folder in sorted(path.name for path in site.glob("*.dist-info")):
        if found := distribution_in(str(site), folder):
            yield found


@contextmanager
def _without(copy: Path, item: Distribution) -> Iterator[None]:
    """Take the files of a distribution away, and put them back."""
    site = next(copy.glob("lib/python3*/site-packages"))
    aside = Path(tempfile.mkdtemp(prefix="aside-", dir=copy.parent))
    moved = []
    for at, path in enumerate(site / row for row in _recorded(site, item)):
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
        yield
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
            [copy / "bin" / "python", "-I", "-c", f"import {module}"],
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
