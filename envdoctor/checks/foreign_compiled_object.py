"""A compiled extension in a cache that was built for another stack.

What it finds:
    Shared objects in torch's extension cache and in FlashInfer's JIT cache that this torch would load by name although
    they are linked against another CUDA major, or were compiled with the headers of another venv's torch.

Why it matters:
    These two caches are keyed by a name and a version or two. An object of another stack is loaded as it is: undefined
    symbols at best. Inductor's and Triton's entries are keyed by content and cannot be wrong in this way.

Example:
    `~/.cache/torch_extensions/py312_cu128/fused_adam/fused_adam.so` needs libcudart.so.13.

Fix:
    Delete the folder of that one extension, or the object alone where the folder holds other files than a build makes;
    it is compiled again at its next use. No other cache entry is touched.
"""

import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from envdoctor.analysis.context import CheckContext
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.fingerprint import MissingFactError
from envdoctor.model.wording import counted
from envdoctor.probes.caches.compiled_objects import CompiledObject, CompiledObjects
from envdoctor.probes.loading.torch_build import TorchBuild

CODE = "ED503"
NAME = "foreign-compiled-object"
AREA = "Compile cache"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each object of another stack. Raises MissingFactError when not all were looked at."""
    build, found = case.facts[TorchBuild], case.facts[CompiledObjects]
    for item in found.objects:
        if item.cuda_major and build.cuda_major and item.cuda_major != build.cuda_major:
            libraries = ", ".join(name for name in item.needed if f".so.{item.cuda_major}" in name)
            yield _finding(
                item,
                "error",
                f"is linked against CUDA {item.cuda_major}; torch {build.version} is a CUDA {build.cuda} build",
                f"needs {libraries}",
            )
        elif not item.for_this_torch:
            yield _finding(
                item,
                "warning",
                "was compiled for the torch of another environment",
                f"its build.ninja includes {item.built_for}; this environment's is {build.folder}",
            )
    looked_at = len(found.objects) + len(found.unreadable)
    if not found.read_all:
        raise MissingFactError(
            CompiledObjects.__name__,
            f"{counted(looked_at, 'compiled object', 'was', 'were')} looked at, and there are more",
        )
    if found.unreadable:
        raise MissingFactError(CompiledObjects.__name__, found.unreadable[0])


def _finding(item: CompiledObject, severity: str, what: str, evidence: str) -> Finding:
    path = PurePosixPath(item.path)
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if severity == "error" else "warning",
        confidence="high" if severity == "error" else "medium",
        title=f"{path.name} in the {item.kind} cache {what}",
        subject=path.name,
        evidence=(item.path, evidence),
        remediation=Remediation(
            text=f"Delete this one extension's {'folder' if item.alone else 'object'}; it is compiled again at its "
            "next use. Other jobs that use it now keep what they have loaded",
            commands=(f"rm {'-r ' * item.alone}{shlex.quote(str(path.parent if item.alone else path))}",),
        ),
    )
