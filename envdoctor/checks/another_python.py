"""A distribution that was built for another Python or another machine.

What it finds:
    Extension modules whose file name carries another Python's tag and that have no sibling for this one; wheels none of
    whose tags fit this interpreter; distributions whose Requires-Python excludes it.
    A wheel for this Python of which some module is for another one only is worth a note.

Why it matters:
    The metadata looks well and the import fails, or finds nothing at all: `ModuleNotFoundError: No module named
    'numpy._core._multiarray_umath'`.

Example:
    A `lib/python3.12` copied from a 3.10 venv: `_C.cpython-310-x86_64-linux-gnu.so`.

Fix:
    Reinstall the distribution by force with this environment's interpreter.
"""

import re
from collections.abc import Iterator

from envdoctor.analysis.context import Case
from envdoctor.analysis.remedies import reinstall_command, restore_or
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.loading.extension_modules import ExtensionModules, ForeignExtension
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.standards.need import meets

CODE = "ED104"
NAME = "built-for-another-python"
AREA = "Interpreter"
_SHOWN = 6
_PYTHON_TAG = re.compile(r"^(?P<kind>cp|py)3(?P<minor>\d*)$")


def run(case: Case) -> Iterator[Finding]:
    """Yield one finding for all distributions that cannot work, another for those that ask for another Python."""
    python = case.facts[Interpreter]
    foreign: dict[str, list[ForeignExtension]] = {}
    for extension in case.facts[ExtensionModules].foreign:
        foreign.setdefault(extension.owner, []).append(extension)
    # A base interpreter's folders are its own affair, and conda's and Debian's distributions carry no tags.
    items = [item for item in case.facts[Distributions].items if not item.shadowed and item.origin == "site-packages"]
    of_wheel = [item for item in items if item.name in foreign and item.tags and _any_fits(item.tags, python)]
    partly = [item for item in of_wheel if foreign[item.name][0].beside]
    unfit = [item for item in items if item.name in foreign or (item.tags and not _any_fits(item.tags, python))]
    unfit = [item for item in unfit if item not in partly]
    if unfit:
        yield _cannot_work(case, unfit, foreign)
    for item in partly:
        yield _partly(case, item, foreign[item.name])
    unwelcome = [item for item in items if item not in unfit and not meets(python.version, item.requires_python)]
    if unwelcome and python.version.count(".") > 1:
        yield _asks_for_another(case, unwelcome)


def _any_fits(tags: tuple[str, ...], python: Interpreter) -> bool:
    return any(_fits(tag, python) for tag in tags)


def _fits(tag: str, python: Interpreter) -> bool:
    """Tell whether one wheel tag fits (PEP 425); a tag of an unknown form is not refused."""
    parts = tag.split("-")
    if len(parts) != 3:
        return True
    interpreter, abi, platform = parts
    machine = platform == "any" or (
        platform.startswith(("linux", "manylinux", "musllinux")) and python.machine in platform
    )
    if not machine:
        return False
    stated = python.minor.partition(".")[2]
    if not (stated.isascii() and stated.isdecimal()):
        return True  # a fingerprint that was edited; a probe writes a number
    own = int(stated)
    match = _PYTHON_TAG.match(interpreter)
    if match is None:
        return interpreter not in ("py2", "cp27")
    minor = int(match["minor"]) if match["minor"] else None
    if match["kind"] == "py" or abi in ("none", "abi3"):
        return minor is None or minor <= own
    return minor == own and abi.endswith("t") == python.free_threaded


def _cannot_work(case: Case, unfit: list[Distribution], foreign: dict[str, list[ForeignExtension]]) -> Finding:
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
            *(_why(item, foreign.get(item.name, [])) for item in unfit[:_SHOWN]),
            *((f"and {len(unfit) - _SHOWN} more distributions",) if len(unfit) > _SHOWN else ()),
        ),
        remediation=restore_or(
            case,
            "reinstall by force with this interpreter",
            [reinstall_command(case, [(item.name, item.version) for item in unfit])],
        ),
        causes=tuple(f"dist:{item.name}" for item in unfit),
    )


def _partly(case: Case, item: Distribution, extensions: list[ForeignExtension]) -> Finding:
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


def _why(item: Distribution, extensions: list[ForeignExtension]) -> str:
    if extensions:
        return f"{item.name} {item.version}: {extensions[0].path}, and no file of that module for this Python"
    return f"{item.name} {item.version}: its wheel was tagged {' or '.join(item.tags[:3])}"


def _asks_for_another(case: Case, unwelcome: list[Distribution]) -> Finding:
    python = case.facts[Interpreter]
    first = unwelcome[0]
    more = f" and {counted(len(unwelcome) - 1, 'other distribution')}" if len(unwelcome) > 1 else ""
    return Finding(
        code=CODE,
        name=NAME,
        severity="warning",
        confidence="high",
        title=f"{first.name} {first.version}{more} does not support CPython {python.version}",
        subject=", ".join(item.name for item in unwelcome),
        evidence=tuple(
            f"{item.name} {item.version}: Requires-Python {item.requires_python}" for item in unwelcome[:_SHOWN]
        ),
        remediation=restore_or(
            case, "install versions that support this Python, or make the venv with one that they support", []
        ),
    )
