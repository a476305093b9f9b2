"""No compiler or no Python headers for a stack that compiles.

What it finds:
    With a profile that compiles: no C compiler (Triton builds its launcher with it), no C++ compiler (inductor), no
    Python.h of the base interpreter.

Why it matters:
    `import torch` and eager runs work; the first torch.compile fails after minutes of loading: "Failed to find C
    compiler" or "fatal error: Python.h: No such file or directory". A warm cache hides it until the first miss.

Example:
    A slim image with python3 and without python3-dev.

Fix:
    Install the system packages; nothing in the venv is wrong.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.model.finding import Finding, Remediation
from envdoctor.probes.machine.toolchain import Toolchain
from envdoctor.probes.venv.interpreter import Interpreter

CODE = "ED705"
NAME = "missing-toolchain"
AREA = "Compile cache"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for everything that is missing."""
    wanted = case.wanted().compile
    if not (wanted.threads or wanted.cache_minimum_entries or wanted.cache_bytes):
        raise DoesNotApplyError("the profile does not compile")
    tools, python = case.facts[Toolchain], case.facts[Interpreter]
    missing = [
        *(
            ()
            if tools.cc
            else (("a C compiler", "no $CC, gcc or clang on PATH: Triton needs it for its launcher", "gcc"),)
        ),
        *(() if tools.cxx else (("a C++ compiler", "no $CXX, g++ or clang++ on PATH: inductor needs it", "g++"),)),
        *(
            ()
            if tools.python_header
            else (
                ("Python.h", f"no {python.folder}/Python.h under the base interpreter {python.home}", _headers(python)),
            )
        ),
    ]
    if not missing:
        return
    packages = " ".join(package for _, _, package in missing if package)
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"torch.compile has no {' and no '.join(what.removeprefix('a ') for what, _, _ in missing)}",
        subject="toolchain",
        evidence=tuple(why for _, why, _ in missing),
        remediation=Remediation(
            text="Install the system packages (named as on Debian and Ubuntu); a Python managed by uv has its headers",
            commands=(f"sudo apt-get install --yes {packages}",) if packages else (),
        ),
    )


def _headers(python: Interpreter) -> str:
    # A distribution's own Python has its headers in a package; any other comes with them or must be replaced.
    return f"python{python.minor}-dev" if python.home.startswith("/usr/bin") else ""
