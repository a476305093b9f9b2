"""One Python module, several distributions that install it.

What it finds:
    Installed distributions that write the same importable module with different contents, and the deprecated `pynvml`
    distribution, which patches the import of the module `pynvml` at every start. A single file that no code of its
    owners imports (a build backend packed by mistake) is worth a note.

Why it matters:
    Which of them is imported depends on which was installed last; in one transaction it is random. Uninstalling any of
    them deletes the module for all: `No module named 'pynvml'` with nvidia-ml-py installed.

Example:
    nvidia-ml-py, nvidia-ml-py3 and pynvml; onnxruntime and onnxruntime-gpu; opencv-python and opencv-python-headless.

Fix:
    Two steps in this order: uninstall all but one, then force-reinstall that one.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import file_tokens, site_relative
from envdoctor.analysis.file_conflicts import Contest, contests
from envdoctor.analysis.remedies import reinstall_command, repair_or, restore_or, uninstall_command
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import Contested
from envdoctor.probes.venv.startup_hooks import StartupHooks

CODE = "ED409"
NAME = "module-conflict"
AREA = "Installed files"
_SHIM = "pynvml"
_SHOWN = 3


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each contested module, and a note for the pynvml shim."""
    for contest in contests(case):
        if contest.module:
            yield _contested(case, contest)
    hook = next((hook for hook in case.facts[StartupHooks].hooks if hook.owner == _SHIM), None)
    if hook is not None:
        yield _shim(case, hook.path)


def _contested(case: CheckContext, contest: Contest) -> Finding:
    owners = " and ".join(f"{name} {version}" for name, version in contest.owners)
    foreign = bool(contest.wanted and contest.foreign)
    on_disk = sorted({name for path in contest.paths for name in path.on_disk})
    whose = f"; the one on disk is {' and '.join(on_disk)}'s" if on_disk else ""
    return Finding(
        code=CODE,
        name=NAME,
        severity="note" if contest.unused else "error" if foreign else "warning",
        confidence="high" if contest.wanted or contest.unused else "low",
        title=f"the module {contest.module} is installed by {owners} at once{whose}",
        subject=contest.module,
        evidence=(
            *((f"{contest.wanted} is the expected owner: {contest.told_by}",) if contest.wanted else ()),
            *(
                f"{by} requires {name}: after the uninstall that stays unmet in metadata alone, since {contest.wanted} "
                f"installs the module {contest.module}; do not install {name} again for it"
                for name, by in contest.required
            ),
            *(f"{site_relative(path.path)}: {_bytes(path)}" for path in contest.paths[:_SHOWN]),
            *(f"imported by {site_relative(path.imported_by)}" for path in contest.paths if path.imported_by),
            *(("no Python file of theirs imports it",) if contest.unused else ()),
            f"{counted(len(contest.paths), 'file')} with more than one owner",
        ),
        remediation=_remedy(case, contest),
        causes=(
            *(token for path in contest.paths for token in (*file_tokens(path.path), f"bytes:{path.path}")),
            *(f"intruder:{name}" for name in contest.intruders),
        ),
    )


def _bytes(path: Contested) -> str:
    if path.told_by in ("missing", "not told"):
        return path.told_by
    return f"the bytes of {' and '.join(path.on_disk) or 'neither'}, identified by {path.told_by}"


def _remedy(case: CheckContext, contest: Contest) -> Remediation:
    if contest.unused:
        return Remediation(
            text="Nothing is broken: a file that both pack beside their packages. Only code of "
            "your own that imports it would get the wrong one",
            safe=True,
        )
    if not contest.wanted and contest.required:
        asked = "; ".join(f"{name} is required by {asker}" for name, asker in contest.required)
        return Remediation(
            text=f"{asked}: what is required stays. Force-reinstall, last, the one whose module this environment is "
            "to use, and uninstall only what nothing requires"
        )
    if not contest.wanted:
        names = " and ".join(name for name, _ in contest.owners)
        return Remediation(
            text=f"Decide which of {names} this environment needs, uninstall the others, then force-reinstall that "
            "one: the uninstall deletes the module"
        )
    return repair_or(
        case,
        f"first uninstall all but {contest.wanted}, then force-reinstall it: the uninstall deletes the module",
        [
            uninstall_command(case, contest.unwanted),
            reinstall_command(case, [(contest.wanted, contest.version(contest.wanted))]),
        ],
    )


def _shim(case: CheckContext, path: str) -> Finding:
    installed = case.facts[Distributions]
    shim = installed.active(_SHIM)
    askers = [
        item.name for item in installed.items if any(line.split(";")[0].strip() == _SHIM for line in item.requires)
    ]
    required = (f"required by {', '.join(askers)}: their requirement should be nvidia-ml-py",) if askers else ()
    return Finding(
        code=CODE,
        name=NAME,
        severity="note",
        confidence="high",
        title=f"{_SHIM} {shim.version if shim else ''} is a deprecated shim that runs at every start of this "
        "interpreter and warns at `import pynvml`",
        subject=_SHIM,
        evidence=(path, "nvidia-ml-py provides the module itself", *required),
        remediation=restore_or(
            case, "uninstall the shim; the module belongs to nvidia-ml-py", [uninstall_command(case, [_SHIM])]
        ),
    )
