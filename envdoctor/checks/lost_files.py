"""Files missing at paths that another wheel writes too, as an uninstall of that one leaves them.

What it finds:
    A distribution whose RECORD lists files that are gone, where those are paths that another wheel is known to write
    as well. Uninstalling either wheel deletes the shared files, while the other's metadata stays.

Why it matters:
    Every metadata check says all is well ("All installed packages are compatible"), a plain install is a no-op, and
    `import torch` names one missing library after the other.

Example:
    `nvidia-cudnn-cu13` and `nvidia-cudnn-cu12` both write `nvidia/cudnn/lib/libcudnn.so.9`. Both are installed, the
    cu13 wheel is uninstalled: `libcudnn.so.9` is gone, and `nvidia-cudnn-cu12` still looks installed.

Fix:
    Force-reinstall the surviving owner (`--reinstall-package`), without its dependencies; or restore the profile.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import Damage, file_tokens, listed, lost_to_others, site_relative
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.model.finding import Finding
from envdoctor.model.wording import counted

CODE = "ED201"
NAME = "files-removed-by-uninstall"
AREA = "Installed files"
_PART = 3
"""One file in so many is missing, where another wheel took all that it shares: metadata and examples are its own."""


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all distributions that lost shared files: they have one cause."""
    lost = lost_to_others(case)
    if not lost:
        return
    # NVIDIA's wheels of two CUDA majors come and go with torch's; few ever had pillow-simd beside pillow.
    theirs = all(site_relative(path).startswith("nvidia/") for damage in lost for path in damage.missing)
    # An uninstall takes all that the other wheel has too; a file that was deleted by hand is one.
    usual = theirs and sum(len(damage.missing) for damage in lost) * _PART >= sum(damage.files for damage in lost)
    names = ", ".join(damage.owner for damage in lost)
    yield Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high" if usual else "medium",
        title=f"files of {counted(len(lost), 'distribution')} are missing, each at a path that another wheel writes "
        "too",
        subject=names,
        evidence=(
            *(line for damage in lost for line in _evidence(damage)),
            "an uninstall deletes every path of its RECORD, even if another package owns it too",
            *(() if usual else ("files that were deleted by hand, or not copied, leave the same",)),
        ),
        remediation=restore_or(
            case,
            "force-reinstall the surviving owners; a plain install changes nothing, since their metadata says "
            "they are there",
            [reinstall_command(case, [(damage.owner, damage.version) for damage in lost])],
        ),
        causes=tuple(token for damage in lost for path in damage.missing for token in file_tokens(path)),
    )


def _evidence(damage: Damage) -> Iterator[str]:
    yield (
        f"{damage.owner} {damage.version}: {len(damage.missing)} of {damage.files} files in its RECORD are missing: "
        f"{listed(damage.missing)}"
    )
    yield f"the same paths are written by {' and '.join(damage.other_writers)}, not installed now"
