"""How many planted mistakes the unit tests of a room notice: a sample of cosmic-ray's mutants, each run.

    python -m venv MUTANTS && MUTANTS/bin/python -m pip install -e . --group test cosmic-ray==8.7.0 pytest-cov
    MUTANTS/bin/python benchmarks/mutation.py CHECKOUT --out FILE.jsonl [--sample N] [--seed N] [--room NAME ...]

CHECKOUT is a scratch checkout of this repository, whose files are changed in place and put back one after the other;
MUTANTS is a venv that has it installed editable. Mutants are cosmic-ray's, of every operator, without those inside an
annotation (which only mypy reads). The same share of mutants is drawn from each room by a seed.

First the room's unit tests run once under coverage. A mutant is then tested by the tests that execute its line, up
to the first that fails; one whose line no test executes has survived, and one that makes the tests hang was noticed.
Where many tests execute a line, some of them are drawn (--tests). Tests that need torch are skipped without one, and
one that fails before anything is changed is left out; so are the property tests of hostile ELF files, for their time.
One JSON object a mutant is written, with its diff; what FILE.jsonl already holds is not run again. The last lines
printed are the shares: killed, survived, and how many of the survivors no test executes.
"""

import argparse
import ast
import json
import os
import random
import shlex
import sqlite3
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from cosmic_ray.commands.init import _all_work_items
from cosmic_ray.mutating import mutate_and_test
from cosmic_ray.work_item import MutationSpec
from coverage.numbits import numbits_to_nums

# Room -> (modules, tests). In the first layout (commit 7972e07), swap was a part of stack, loader one of elf.
SWAP = ("store", "journal", "swap", "transaction", "contents", "durable", "hardlinks", "generations", "space", "in_use")
ROOMS = {
    "elf, loader": (
        ("envdoctor/elf/*.py", "envdoctor/loader/*.py"),
        ("tests/unit/elf", "tests/unit/loader"),
    ),
    "checks": (("envdoctor/checks/*.py",), ("tests/checks/test_*.py",)),
    "swap": (
        ("envdoctor/swap/*.py", *(f"envdoctor/stack/{name}.py" for name in (*SWAP, "strangers"))),
        ("tests/unit/swap", "tests/unit/stack/test_swap.py", "tests/unit/stack/test_in_use.py"),
    ),
}
LEFT_OUT = "tests/unit/elf/test_hostile_files.py"
TIMEOUT = 300.0


def files(checkout: Path, patterns: tuple[str, ...]) -> list[str]:
    """Return the paths below the checkout that match, sorted."""
    return sorted({path.relative_to(checkout).as_posix() for pattern in patterns for path in checkout.glob(pattern)})


def annotations(path: Path) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return (start, end) as (line, column) of each annotation in a file."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node.returns)
        elif isinstance(node, ast.AnnAssign | ast.arg):
            found.append(node.annotation)
    return [
        ((part.lineno, part.col_offset), (part.end_lineno or 0, part.end_col_offset or 0)) for part in found if part
    ]


def mutants(checkout: Path, modules: list[str]) -> Iterator[MutationSpec]:
    """Yield every mutant of those files, except inside annotations."""
    for module in modules:
        skipped = annotations(checkout / module)
        for item in _all_work_items([Path(module)], {}):
            (mutation,) = item.mutations
            if not any(first <= mutation.start_pos <= last for first, last in skipped):
                yield mutation


def pytest(tests: list[str], *more: str) -> list[str]:
    """Return the command that runs those tests."""
    return [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "--ignore", LEFT_OUT, *more, *tests]


def covering(checkout: Path, tests: list[str], data: Path) -> Mapping[tuple[str, int], set[str]]:
    """Run a room's tests once; return the tests that execute each (file, line)."""
    measured = ("--cov=envdoctor", "--cov-context=test", "--cov-report=", "-rf")
    done = subprocess.run(
        pytest(tests, *measured),
        cwd=checkout,
        env=os.environ | {"COVERAGE_FILE": str(data)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (0, 1):
        sys.exit(f"the tests do not run:\n{done.stdout}")
    failed = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("FAILED ")}
    print(f"left out, since they fail as it is: {', '.join(sorted(failed)) or 'none'}", flush=True)
    found: dict[tuple[str, int], set[str]] = defaultdict(set)
    rows = sqlite3.connect(data).execute(
        "select file.path, context.context, numbits from line_bits"
        " join file on file.id = file_id join context on context.id = context_id"
    )
    for path, context, bits in rows:
        # "" is what runs at import: every test of the room executes it.
        test = context.rpartition("|")[0]
        if test not in failed:
            for line in numbits_to_nums(bits):
                found[Path(path).relative_to(checkout).as_posix(), line].add(test)
    return found


def run(checkout: Path, mutation: MutationSpec, tests: list[str]) -> dict[str, object]:
    """Test one mutant, and return what came out."""
    started = time.monotonic()
    killed, diff = False, ""
    if tests:
        arguments = checkout / ".mutation-tests"
        arguments.write_text("\n".join(tests))
        result = mutate_and_test([mutation], shlex.join(pytest([f"@{arguments}"], "-x")), TIMEOUT)
        output = result.output or ""
        if "not found:" in output and "rror collecting" not in output and "rror while" not in output:
            sys.exit(f"pytest did not find a test that it ran before:\n{output}")
        killed, diff = result.is_killed, result.diff or output
    return {
        "module": mutation.module_path.as_posix(),
        "line": mutation.start_pos[0],
        "operator": mutation.operator_name,
        "occurrence": mutation.occurrence,
        "tests": len(tests),
        "killed": killed,
        "seconds": round(time.monotonic() - started, 1),
        "diff": [line for line in diff.split("\n") if line[:1] in "+-" and line[:3] not in {"+++", "---"}],
    }


def main() -> None:
    """Draw, run, write, and print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=lambda text: Path(text).resolve())
    parser.add_argument("--out", type=lambda text: Path(text).resolve(), required=True)
    parser.add_argument("--sample", type=int, default=60, help="mutants of each room")
    parser.add_argument("--tests", type=int, default=40, help="tests of each mutant, at most")
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--room", action="append", choices=ROOMS, help="only this one")
    arguments = parser.parse_args()
    checkout, out = arguments.checkout, arguments.out
    # cosmic-ray takes module paths, and runs the tests, relative to the current folder.
    os.chdir(checkout)
    rows = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    done = {(row["module"], row["operator"], row["occurrence"]) for row in rows}
    queues = []
    for room in arguments.room or ROOMS:
        modules, tests = (files(checkout, patterns) for patterns in ROOMS[room])
        lines = covering(checkout, tests, checkout / ".coverage-mutation")
        every = list(mutants(checkout, modules))
        # A larger sample begins with the smaller one of the same seed.
        random.Random(arguments.seed).shuffle(every)  # noqa: S311
        drawn = every[: arguments.sample]
        print(f"{room}: {len(modules)} modules, {len(every)} mutants, {len(drawn)} drawn", flush=True)
        whole = set().union(*lines.values()) - {""}
        queues.append([(room, mutation, lines, whole) for mutation in drawn])
    # The rooms in turn, so that what was stopped half-way has a share of each.
    for turn in range(arguments.sample):
        for queue in queues:
            if turn >= len(queue):
                continue
            room, mutation, lines, whole = queue[turn]
            key = (mutation.module_path.as_posix(), mutation.operator_name, mutation.occurrence)
            if key in done:
                continue
            executing = lines[key[0], mutation.start_pos[0]]
            # What runs at import is under every test.
            able = sorted(executing - {""}) or (sorted(whole) if executing else [])
            some = random.Random(arguments.seed).sample(able, min(arguments.tests, len(able)))  # noqa: S311
            row = {"room": room, **run(checkout, mutation, some)}
            rows.append(row)
            with out.open("a") as file:
                file.write(json.dumps(row) + "\n")
    for room in ROOMS:
        mine = [row for row in rows if row["room"] == room]
        if mine:
            killed, unseen = sum(row["killed"] for row in mine), sum(not row["tests"] for row in mine)
            print(f"{room}: {killed} of {len(mine)} killed ({killed / len(mine):.0%}); no test executes {unseen}")


if __name__ == "__main__":
    main()
