"""The torch build, parsed from its own files; never imported, never taken from dist metadata.

The PyPI wheel of torch 2.10.0 has the distribution version "2.10.0" while torch/version.py says "2.10.0+cu128": only
the file tells the CUDA flavour.
"""

import re
from pathlib import Path
from typing import Literal

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_regular
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.search_path import SearchPath
from envdoctor.probes.venv.version_file import constants

_MAXIMUM_TRACER = 4 * 1024 * 1024
_GLOBAL_FLAG = pattern(rb"^_is_fx_tracing_flag\s*(?::[^=\n]+)?=", re.MULTILINE)
_THREAD_LOCAL_FLAG = pattern(rb"^_is_fx_tracing_tls\s*(?::[^=\n]+)?=\s*threading\.local\(\)", re.MULTILINE)


@frozen
class TorchBuild:
    """The torch that `import torch` would take."""

    present: bool
    folder: str
    """.../torch, or empty."""
    origin: str
    """Why its sys.path folder is on sys.path."""
    version: str
    """`__version__` of torch/version.py, with its local part; empty when the file is missing or says none."""
    cuda: str
    """"12.8"; empty for a CPU build."""
    hip: str
    """"7.2.1" of a ROCm build; empty otherwise."""
    git_version: str
    distribution_version: str
    """What the distribution's metadata says, which may lack the local part."""
    fx_flag: Literal["process-global", "thread-local", "unknown"]
    """Where torch/fx/_symbolic_trace.py keeps the tracing flag (thread-local since pytorch PR 168999)."""
    fx_evidence: str
    """file:line that told, or why it could not be determined."""
    xpu: str = ""
    """oneAPI's version of an Intel GPU build; empty otherwise."""

    @property
    def unchecked_driver(self) -> str:
        """Return whose driver this build needs, where that is not NVIDIA's; empty otherwise: none of it is checked."""
        return "AMD" if self.hip else "Intel GPU" if self.xpu else ""

    @property
    def cuda_major(self) -> str:
        """Return "12", or empty for a CPU build."""
        return self.cuda.partition(".")[0]


ABSENT = TorchBuild(
    present=False,
    folder="",
    origin="",
    version="",
    cuda="",
    hip="",
    git_version="",
    distribution_version="",
    fx_flag="unknown",
    fx_evidence="torch is not there",
)


def probe(reading: Reading) -> TorchBuild:
    """Parse torch/version.py of the first torch package on sys.path. Raises ProbeError when it cannot be parsed."""
    entry = next(
        (entry for entry in reading.fact(SearchPath).site_dirs if (Path(entry.path) / "torch/__init__.py").is_file()),
        None,
    )
    installed = reading.fact(Distributions).active("torch")
    distribution_version = installed.version if installed else ""
    if entry is None:
        return replace(ABSENT, distribution_version=distribution_version)
    folder = Path(entry.path) / "torch"
    stated = constants(folder / "version.py")
    flag, evidence = _fx_flag(folder / "fx/_symbolic_trace.py")
    return TorchBuild(
        present=True,
        folder=str(folder),
        origin=entry.origin,
        version=stated.get("__version__", ""),
        cuda=stated.get("cuda", ""),
        hip=stated.get("hip", "") or stated.get("rocm", ""),
        xpu=stated.get("xpu", ""),
        git_version=stated.get("git_version", ""),
        distribution_version=distribution_version,
        fx_flag=flag,
        fx_evidence=evidence,
    )


def _fx_flag(path: Path) -> tuple[Literal["process-global", "thread-local", "unknown"], str]:
    try:
        source = read_regular(path, _MAXIMUM_TRACER)
    except OSError as error:
        return "unknown", f"{path}: {error.strerror or error}"
    for flag, kind in ((_THREAD_LOCAL_FLAG, "thread-local"), (_GLOBAL_FLAG, "process-global")):
        if match := flag.search(source):
            line = source.count(b"\n", 0, match.start()) + 1
            return kind, f"{path}:{line}"  # type: ignore[return-value]
    return "unknown", f"{path} defines neither _is_fx_tracing_flag nor _is_fx_tracing_tls"
