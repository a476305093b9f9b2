"""A distribution that is imported from a source folder.

What it finds:
    Editable installs: their files are in a working tree, outside the environment. It is an error when that folder is
    gone, or when what the install wrote into site-packages points at nothing (a finder with an empty MAPPING, a .pth
    or .egg-link to a folder that does not exist): then no import finds it, though pip and uv list it.

Why it matters:
    Nothing about them can be verified: RECORD lists a pointer, the code is whatever the folder holds today. Two
    fingerprints can be equal and the code different.

Example:
    `uv pip install -e ../trainer`.

Fix:
    Mount the share that the folder is on, or install from where it is now. For a run that must be repeatable, install a
    wheel of a commit. Where setuptools found no package,
    `--config-setting editable_mode=compat` puts the project's folder on sys.path; better, name the packages in its
    pyproject.toml.
"""

import re
import shlex
from collections.abc import Iterator, Sequence

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import install_line, restore_or, uninstall_command, unless_outside
from envdoctor.analysis.taken_away import not_to_uninstall
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.editables import Editable, Editables

CODE = "ED412"
NAME = "editable-install"
AREA = "Distributions"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield an error for all whose folder is gone, one for each that exposes nothing, and one note for the others."""
    editable = [item for item in case.facts[Distributions].items if item.editable and not item.shadowed]
    gone = [item for item in editable if item.source_gone]
    if gone:
        yield _gone(case, gone)
    told = {item.name for item in gone}
    empty = [item for item in case.facts[Editables].items if item.exposes_nothing and item.name not in told]
    for pointer in empty:
        yield _exposes_nothing(case, pointer)
    told |= {item.name for item in empty}
    found = [item for item in editable if item.name not in told]
    if found:
        yield Finding(
            code=CODE,
            name=NAME,
            severity="note",
            confidence="high",
            title=f"{counted(len(found), 'distribution', 'is', 'are')} imported from a source folder: "
            f"{', '.join(item.name for item in found)}",
            subject=", ".join(item.name for item in found),
            evidence=tuple(f"{item.name} {item.version}: {item.direct_url}" for item in found),
            remediation=Remediation(text="For a run that must be repeatable, install a wheel of a commit instead"),
        )


def _gone(case: CheckContext, items: Sequence[Distribution]) -> Finding:
    names = ", ".join(item.name for item in items)
    points = [item.mount_point for item in items]
    which = "a source folder that is gone" if len(items) == 1 else "source folders that are gone"
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{names} cannot be imported: installed from {which}",
        subject=names,
        evidence=(
            *(f"{item.name} {item.version}: {item.direct_url} does not exist" for item in items),
            *(f"{point} is all that is there of its path" for point in dict.fromkeys(points) if point),
        ),
        remediation=_bring_back(case, items, [point for point in dict.fromkeys(points) if point]),
        causes=tuple(f"dist:{item.name}" for item in items),
    )


def _bring_back(case: CheckContext, items: Sequence[Distribution], points: Sequence[str]) -> Remediation:
    names = [item.name for item in items]
    remove = uninstall_command(case, names)
    if points:
        # Mounted again it is whole; no command tells from here what to mount.
        mount = f"If it is on a share, mount it (below {' and '.join(points)}), and nothing else is to be done. "
        if keep := not_to_uninstall(case, names):
            return Remediation(text=f"{mount}Otherwise {keep}")
        return Remediation(
            text=f"{mount}Otherwise install from where it is now: "
            f"`uv pip install --python {case.python} --editable FOLDER`; or, if it is not needed any more, `{remove}`"
        )
    text = "put the folder back, or install from where it is now; if it is not needed any more, uninstall it"
    return unless_outside(case, names, restore_or(case, text, [remove]), "put the folder back")


def _exposes_nothing(case: CheckContext, item: Editable) -> Finding:
    told = item.told_by.rpartition("/")[2]
    what = {
        "finder": "its finder maps no module" if not item.places else "all that its finder maps is gone",
        "path": f"{told} adds no folder" if not item.places else f"the folder that {told} adds does not exist",
        "egg-link": f"the folder that {told} names does not exist",
    }[item.kind]
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{f'{item.name} {item.version}'.strip()} is installed, and no import finds it: {what}",
        subject=item.name,
        evidence=(
            f"{item.told_by}: MAPPING and NAMESPACES are empty"
            if not item.places and item.kind == "finder"
            else item.told_by,
            *(f"{path} does not exist" for path in item.gone),
        ),
        remediation=_expose(case, item),
        causes=(f"dist:{item.name}",),
    )


def _expose(case: CheckContext, item: Editable) -> Remediation:
    if item.kind == "egg-link":
        # setuptools' develop writes the folder into both files.
        site = item.told_by.rpartition("/")[0]
        entry = r"\#^" + re.sub(r"[.\[\]*^$\\#]", lambda match: rf"\{match[0]}", item.source) + "$#d"
        pth = shlex.quote(f"{site}/easy-install.pth")
        return Remediation(
            text="Put the folder back, or install the project from where it is now. If it is not needed any more, take "
            "out the entry",
            commands=(
                f"rm {shlex.quote(item.told_by)}",
                f"test ! -e {pth} || sed -i {shlex.quote(entry)} {pth}",
            ),
        )
    words = f"--no-deps --reinstall-package {shlex.quote(item.name)}"
    if item.kind == "finder" and not item.places:
        return Remediation(
            text="The build found no package in the project. Name them in its pyproject.toml ([tool.setuptools] "
            "packages) and install it again; or put the project's folder on sys.path as it is",
            commands=(
                install_line(
                    case,
                    [item.name],
                    f"{words} --config-setting editable_mode=compat --editable {shlex.quote(item.source)}",
                ),
            ),
        )
    return Remediation(
        text="Install the project again: what its install wrote points at what was moved or removed since",
        commands=(install_line(case, [item.name], f"{words} --editable {shlex.quote(item.source)}"),),
    )
