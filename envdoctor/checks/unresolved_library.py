"""A shared library that `import torch` needs and nothing provides.

What it finds:
    The first soname the loader would miss, in its own breadth-first order, and every further one, predicted from the
    ELF files: RPATH, LD_LIBRARY_PATH, RUNPATH, ld.so.cache, torch's preload list.

Why it matters:
    `import torch` raises for the first one only; fixing that one by hand shows the next.

Example:
    `ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory`

Fix:
    Put back the distribution that provides it, in the CUDA major torch was built for.
"""

from collections.abc import Iterator
from pathlib import PurePosixPath

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import site_relative
from envdoctor.analysis.remedies import install_command, reinstall_command, restore_or, unless_outside
from envdoctor.analysis.variable_commands import without_library_folder, without_preload
from envdoctor.catalog.cudalibs import expected_owner
from envdoctor.loader.search import split_library_path, split_preload
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.verdict import BREAKS_IMPORT
from envdoctor.model.wording import counted
from envdoctor.probes.loading.libraries import Libraries, Unresolved
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.standards.requirements import pinned_version, required_names

CODE = "ED301"
NAME = "unresolved-library"
AREA = "Shared libraries"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each name or file that the import itself stumbles over."""
    libraries = case.facts[Libraries]
    missing: dict[str, list[Unresolved]] = {}
    for item in libraries.unresolved:
        if item.stage != "lazy":
            missing.setdefault(item.soname, []).append(item)
    for at, (item, *more) in enumerate(missing.values()):
        first = at == 0 and libraries.import_error
        yield Finding(
            code=CODE,
            name=NAME,
            severity="error",
            confidence="high",
            title=f"`import torch` fails: {libraries.import_error}" if first else f"and then: {item.problem}",
            subject=item.soname,
            evidence=(
                *evidence(case, item),
                *((f"and {counted(len(more), 'object')} more stumble over the same file",) if more else ()),
            ),
            remediation=remedy(case, item),
            causes=(BREAKS_IMPORT, f"library:{item.soname}"),
            symptom_of=(f"soname:{PurePosixPath(item.soname).name}", "shadow:torch"),
        )


def evidence(case: CheckContext, item: Unresolved) -> Iterator[str]:
    """Yield who needs it, where it was looked for, and who should provide it."""
    if not item.needed_by:
        yield "opened by torch's preload list"
    elif item.by_name:
        yield f"opened by {site_relative(item.needed_by)} by its name (dlopen)"
    else:
        yield f"needed by {site_relative(item.needed_by)} (DT_NEEDED)"
    if item.searched:
        yield f"looked for in {counted(len(item.searched), 'folder')}, first {item.searched[0]}"
    if item.lies_at:
        yield f"{site_relative(item.lies_at)} is there, where none of those searches leads"
    if variable := _variable(case, _taken(item)):
        yield f"{_taken(item)} is taken because of {variable}"
        return
    owner = _owner(case, item.soname)
    if owner:
        installed = case.facts[Distributions].active(owner)
        state = f"version {installed.version} is installed" if installed else "not installed"
        yield f"its provider for this torch is {owner}: {state}"


def _taken(item: Unresolved) -> str:
    """Return the file that was taken and does not fit, which the loader names first; else the name that was asked."""
    named, _, said = item.problem.partition(": ")
    return named if named.startswith("/") and said else item.soname


def _variable(case: CheckContext, path: str) -> str:
    """Return the loader's variable that leads to a file, or empty."""
    environment = case.facts.get(Environment)
    if not path.startswith("/") or environment is None:
        return ""
    folders = split_library_path(environment.value("LD_LIBRARY_PATH") or "")
    if any(folder and path.startswith(folder.rstrip("/") + "/") for folder in folders):
        return "LD_LIBRARY_PATH"
    return "LD_PRELOAD" if path in split_preload(environment.value("LD_PRELOAD") or "") else ""


def _owner(case: CheckContext, soname: str) -> str:
    name = PurePosixPath(soname).name
    files = case.facts.get(InstalledFiles)
    damaged = (
        next((fault.owner for fault in files.faults if fault.path.rpartition("/")[2] == name), "") if files else ""
    )
    if damaged or name.startswith(("libc10", "libtorch", "libcaffe2", "libshm")):
        return damaged or "torch"
    if case.profile is not None and soname in case.profile.libraries:
        return case.profile.libraries[soname]
    build = case.facts.get(TorchBuild)
    return expected_owner(soname, build.cuda_major) or "" if build and build.cuda_major else ""


def remedy(case: CheckContext, item: Unresolved) -> Remediation:
    """Return the command that reinstalls the provider, even when its metadata is still there."""
    soname = item.soname
    taken = _taken(item)
    if variable := _variable(case, taken):
        return Remediation(
            text=f"Take it out of {variable}: the library does not fit; reinstalling changes nothing",
            commands=(
                without_library_folder(case, taken)
                if variable == "LD_LIBRARY_PATH"
                else without_preload(case, {taken}),
            ),
            safe=True,
        )
    owner = _owner(case, soname)
    if not owner:
        return restore_or(case, f"no provider of {soname} is known for this torch; rebuild the venv from its lock", [])
    installed = case.facts[Distributions].active(owner)
    if installed is not None and item.lies_at and not _is_damaged(case, item.lies_at):
        return _out_of_reach(case, item, owner, installed.version)
    if installed is not None:
        command = reinstall_command(case, [(owner, installed.version)])
        return restore_or(case, f"force-reinstall {owner}", [command])
    text = f"install {owner}"
    if not _asked_for(case, owner):
        text += (
            ", and add it to the lock that this venv is synced from: an exact sync removes what the lock does not list"
        )
    return restore_or(case, text, [install_command(case, [(owner, _version(case, owner))])])


def _is_damaged(case: CheckContext, path: str) -> bool:
    files = case.facts.get(InstalledFiles)
    return files is None or any(fault.path == path for fault in files.faults)


def _out_of_reach(case: CheckContext, item: Unresolved, owner: str, installed: str) -> Remediation:
    """Return the remedy for a file that is there and whole: a reinstall would put the same file in the same place."""
    wanted = _version(case, owner)
    if wanted and wanted != installed:
        command = install_command(case, [(owner, wanted)])
        return unless_outside(case, [owner], restore_or(case, f"install the {owner} that torch asks for", [command]))
    if item.stage != "lazy":
        torch = case.facts[Distributions].active("torch")
        command = reinstall_command(case, [("torch", torch.version if torch else "")])
        return restore_or(case, f"reinstall torch, whose search paths do not lead to {owner}'s folder", [command])
    full = item.lies_at if item.lies_at.startswith("/") else f"{case.facts.target}/{item.lies_at}"
    newer = " torch 2.6 and newer open it at import." if item.soname.startswith("libnvrtc.") else ""
    return Remediation(
        text=f"The file is there and whole, so a reinstall changes nothing.{newer} Or open it in the program, before "
        f'{item.used_when or "its first use"}: ctypes.CDLL("{full}", mode=ctypes.RTLD_GLOBAL)'
    )


def _asked_for(case: CheckContext, owner: str) -> bool:
    torch = case.facts[Distributions].active("torch")
    return owner in case.pins() or (torch is not None and owner in required_names(torch.requires))


def _version(case: CheckContext, owner: str) -> str:
    pinned = case.pins().get(owner)
    if pinned is not None:
        return pinned.version
    torch = case.facts[Distributions].active("torch")
    return pinned_version(torch.requires if torch else (), owner)
