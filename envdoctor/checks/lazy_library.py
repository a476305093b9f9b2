"""A shared library that is opened at first use, and nothing provides.

What it finds:
    Libraries torch or cuDNN open by name when they are first needed (linear algebra, run-time compilation, cuDNN's
    sub-libraries), and what those need, where nothing would satisfy them.

Why it matters:
    `import torch` works and every smoke test passes; the run dies at its first convolution or matrix solve.

Example:
    `nvidia-cusolver-cu12` was removed: `torch.linalg.inv` on a GPU fails with libcusolver.so.11.

Fix:
    Put the provider back. Where its file is there and only out of reach (NVRTC of torch 2.4 and 2.5, whose cuDNN looks
    in a folder that no wheel has), open it in the program, or take a newer torch.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.catalog.cudalibs import DRIVER_LIBRARIES
from envdoctor.checks.unresolved_library import evidence, remedy
from envdoctor.model.finding import Finding
from envdoctor.probes.loading.libraries import Libraries
from envdoctor.probes.machine.gpu import Gpu

CODE = "ED303"
NAME = "unresolved-lazy-library"
AREA = "Shared libraries"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each missing lazily opened soname."""
    gpu = case.facts.get(Gpu)
    for item in case.facts[Libraries].unresolved:
        if item.stage != "lazy" or (item.soname in DRIVER_LIBRARIES and (gpu is None or gpu.state == "absent")):
            continue
        yield Finding(
            code=CODE,
            name=NAME,
            # A file that is there may have been opened by something else before: its soname is then taken from memory.
            severity="warning" if item.lies_at else "error",
            confidence="medium" if item.lies_at else "high",
            title=f"{item.soname} cannot be found; the import works, but {item.used_when or 'its first use'} "
            + ("will fail unless something has opened it before" if item.lies_at else "will fail"),
            subject=item.soname,
            evidence=tuple(evidence(case, item)),
            remediation=remedy(case, item),
            symptom_of=(f"soname:{item.soname}", f"library:{item.soname}"),
        )
