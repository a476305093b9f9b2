"""What torch.compile and Triton need of the host: a C++ compiler and Python's headers."""

import shutil
from pathlib import Path

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.probes.venv.interpreter import Interpreter


@frozen
class Toolchain:
    """Compilers on PATH and headers of the base interpreter."""

    cxx: str
    """The C++ compiler inductor would take ($CXX, g++, clang++), or empty."""
    cc: str
    """The C compiler Triton would take ($CC, gcc, clang), or empty."""
    python_header: str
    """.../Python.h, or empty."""
    ninja: str = ""
    """The ninja on PATH, which compilations at run time start by name; or empty."""
    own_ninja: str = ""
    """The ninja in the environment's bin folder, or empty."""


def probe(reading: Reading) -> Toolchain:
    """Look the compilers up on the host's PATH, as inductor's cpp_builder and triton's build do."""
    environ = reading.host.environ
    path = environ.get("PATH", "")
    python = reading.fact(Interpreter)
    base = Path(python.home).parent if python.home else reading.target.prefix
    header = base / "include" / python.folder / "Python.h"
    return Toolchain(
        cxx=_first(path, environ.get("CXX"), "g++", "clang++"),
        cc=_first(path, environ.get("CC"), "gcc", "clang"),
        python_header=str(header) if header.is_file() else "",
        ninja=_first(path, "ninja"),
        own_ninja=_first(str(reading.target.prefix / "bin"), "ninja"),
    )


def _first(path: str, *names: str | None) -> str:
    return next((found for name in names if name and (found := shutil.which(name, path=path))), "")
