"""A distribution that was built for another Python or another machine.

What it finds:
    Extension modules whose file name carries another Python's tag and that have no sibling for this one; compiled files
    for another machine, in a wheel none of whose tags fits; distributions whose Requires-Python excludes this Python.
    A wheel for this Python of which some module is for another one only is worth a note. A wheel whose tags do not fit
    is a warning where its extension modules do not say by their names which Python they are for, and nothing where it
    has none: the tags inside of a wheel are those of its build, and some are renamed afterwards (decord).

Why it matters:
    The metadata looks well and the import fails, or finds nothing at all: `ModuleNotFoundError: No module named
    'numpy._core._multiarray_umath'`.

Example:
    A `lib/python3.12` copied from a 3.10 venv: `_C.cpython-310-x86_64-linux-gnu.so`.

Fix:
    Force-reinstall the distribution with this environment's interpreter.
"""

from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.loading.extension_modules import ExtensionModules, ForeignExtension, Witness
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.standards.need import meets

CODE = "ED104"
NAME = "built-for-another-python"
AREA = "Interpreter"
_SHOWN = 6


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for all distributions that cannot work, another for those that ask for another Python."""
    python = case.facts[Interpreter]
    extensions = case.facts[ExtensionModules]
    foreign: dict[str, list[ForeignExtension]] = {}
    for extension in extensions.foreign:
        foreign.setdefault(extension.owner, []).append(extension)
    # A base interpreter's folders are its own affair, and conda's and Debian's distributions carry no tags.
    items = [item for item in case.facts[Distributions].items if not item.shadowed and item.origin == "site-packages"]
    of_wheel = [item for item in items if item.name in foreign and item.tags and item.name not in extensions.unfit]
    partly = [item for item in of_wheel if foreign[item.name][0].beside]
    said = {witness.owner: witness for witness in extensions.witnesses}
    of_machine = {name for name, witness in said.items() if witness.kind == "machine"}
    unfit = [item for item in items if item.name in foreign or item.name in of_machine]
    unfit = [item for item in unfit if item not in partly]
    for group in ([item for item in unfit if item not in of_wheel], [item for item in unfit if item in of_wheel]):
        if group:
            yield _cannot_work(case, group, foreign, said, published=group[0] in of_wheel)
    for item in items:
        if item.name in said and item not in unfit and item not in partly:
            yield _by_tag(case, item, said[item.name])
    for item in partly:
        yield _partly(case, item, foreign[item.name])
    unwelcome = [item for item in items if item not in unfit and not meets(python.version, item.requires_python)]
    if unwelcome and python.version.count(".") > 1:
        yield _asks_for_another(case, unwelcome)


def _by_tag(case: CheckContext, item: Distribution, witness: Witness) -> Finding:
    """Return the finding of a wheel of another Python by its tag alone, with a module that says nothing else."""
    python = case.facts[Interpreter]
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="low",
        title=f"{item.name} {item.version} was built for {item.tags[0]}, and this is CPython {python.minor} on "
        f"{python.machine}",
        subject=item.name,
        evidence=(
            f"its wheel was tagged {' or '.join(item.tags[:3])}",
            f"{witness.path} is an extension module whose name states no Python",
        ),
        remediation=Remediation(
            text=f"If `import {witness.path.partition('/')[0].partition('.')[0]}` works, the wheel was renamed after "
            "its build, and this can be ignored. Else install a build for this Python: a reinstall of the same wheel "
            "changes nothing"
        ),
    )


def _cannot_work(
    case: CheckContext,
    unfit: list[Distribution],
    foreign: dict[str, list[ForeignExtension]],
    said: dict[str, Witness],
    *,
    published: bool,
) -> Finding:
    """Return the finding. published: the wheel says that it is for this Python, so an installer takes the same one."""
    python = case.facts[Interpreter]
    first = unfit[0]
    told = foreign[first.name][0].tag if first.name in foreign else first.tags[0]
    more = f" and {counted(len(unfit) - 1, 'other distribution')}" if len(unfit) > 1 else ""
    return Finding(
        code=CODE,
        name=NAME,
        severity="error",
        confidence="high",
        title=f"{first.name} {first.version}{more} cannot be imported by CPython {python.minor} on {python.machine}: "
        f"built for {told}",
        subject=", ".join(item.name for item in unfit),
        evidence=(
            *(_why(item, foreign.get(item.name, []), said) for item in unfit[:_SHOWN]),
            *((f"and {len(unfit) - _SHOWN} more distributions",) if len(unfit) > _SHOWN else ()),
        ),
        remediation=restore_or(
            case,
            f"the wheel says that it is for this Python, so a reinstall changes nothing: take another version of "
            f"{first.name}, or a Python that it was built for"
            if published
            else "force-reinstall with this interpreter",
            [] if published else [reinstall_command(case, [(item.name, item.version) for item in unfit])],
        ),
        causes=tuple(f"dist:{item.name}" for item in unfit),
    )


def _partly(case: CheckContext, item: Distribution, extensions: list[ForeignExtension]) -> Finding:
    """Return the finding of a wheel that is for this Python and has some module that is not: it was published so."""
    python = case.facts[Interpreter]
    first = extensions[0]
    more = f" and {counted(len(extensions) - 1, 'more file')}" if len(extensions) > 1 else ""
    return Finding(
        code=CODE,
        name=NAME,
        severity="note",
        confidence="high",
        title=f"{first.path}{more} of {item.name} {item.version} cannot be imported by CPython {python.minor}: built "
        f"for {first.tag}",
        subject=item.name,
        evidence=(
            f"the wheel is for this Python: {' or '.join(item.tags[:3])}",
            f"{counted(first.beside, 'other extension module')} of it can be imported",
        ),
        remediation=Remediation(
            text="The wheel was published so, and a reinstall changes nothing. If what needs that module is used, take "
            "another version of it, or a Python that it was built for"
        ),
    )


def _why(item: Distribution, extensions: list[ForeignExtension], said: dict[str, Witness]) -> str:
    if extensions:
        return f"{item.name} {item.version}: {extensions[0].path}, and no file of that module for this Python"
    tags = " or ".join(item.tags[:3])
    return f"{item.name} {item.version}: {said[item.name].path} is for another machine, as its wheel's tag says: {tags}"


def _asks_for_another(case: CheckContext, unwelcome: list[Distribution]) -> Finding:
    python = case.facts[Interpreter]
    first = unwelcome[0]
    more = f" and {counted(len(unwelcome) - 1, 'other distribution')}" if len(unwelcome) > 1 else ""
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{first.name} {first.version}{more} {'do' if more else 'does'} not support CPython {python.version}",
        subject=", ".join(item.name for item in unwelcome),
        evidence=tuple(
            f"{item.name} {item.version}: Requires-Python {item.requires_python}" for item in unwelcome[:_SHOWN]
        ),
        remediation=restore_or(
            case, "install versions that support this Python, or make the venv with one that they support", []
        ),
    )
