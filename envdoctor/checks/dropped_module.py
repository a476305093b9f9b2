"""A module that a newer version of what brought it does not have any more.

What it finds:
    Unguarded imports, in installed packages, of a module that nothing here has: pkg_resources, which setuptools 82
    dropped; distutils and imp, which Python 3.12 dropped, and those that 3.13 did. What a package imports in `try` or
    `if` is left out, and so is a file that no import of the package reaches, but where the package itself requires
    setuptools. Large packages that do not require it are not searched. setuptools and pip themselves are judged by
    their versions: those of before Python 3.12 need what it dropped. torchvision and torchaudio are a note: a package
    may import them without requiring them, and what it is there for may do without it.

Why it matters:
    `setuptools>=41` allows a setuptools without the module, so metadata is content, and the import says
    `No module named 'pkg_resources'`: there is no package of that name to install, and setuptools is there.

Example:
    tensorboard 2.20.0 with setuptools 82: `import tensorboard.main` raises, so `tensorboard` does not start.

Fix:
    `setuptools<82`, or a version of the package that does without the module.
"""

from collections.abc import Collection, Iterator

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.version_ranges import another_version, disagreement
from envdoctor.catalog.removed_modules import NEEDS_OLDER_PYTHON, REMOVED, Removed
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.package_imports import GoneModule, PackageImports
from envdoctor.standards.need import meets, parse_need

CODE = "ED415"
NAME = "dropped-module"
AREA = "Distributions"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each module, with all packages that import it."""
    known = {removed.module: removed for removed in REMOVED}
    by_module: dict[str, list[GoneModule]] = {}
    for item in case.facts[PackageImports].modules:
        if item.module in known:
            by_module.setdefault(item.module, []).append(item)
    for module, users in by_module.items():
        yield _finding(case, known[module], sorted(users, key=lambda user: (not user.stops, user.owner)))
    yield from _installers(case, {user.owner for users in by_module.values() for user in users})


def _installers(case: CheckContext, told: Collection[str]) -> Iterator[Finding]:
    python = case.facts[Interpreter].minor
    for name, first, dropped in NEEDS_OLDER_PYTHON:
        item = case.facts[Distributions].active(name)
        if item is None or name in told or meets(python, f"<{dropped}") or not meets(item.version, f"<{first}"):
            continue
        yield Finding(
            code=CODE,
            name=NAME,
            severity="warning",
            confidence="high",
            title=f"{name} {item.version} does not work with Python {python}",
            subject=name,
            evidence=(
                f"it takes distutils or pkgutil.ImpImporter, which Python {dropped} does not have any more",
                f"{name} {first} is the first version that does without them",
            ),
            remediation=_newer(case, name, item.version, first),
        )


def _newer(case: CheckContext, name: str, installed: str, first: str) -> Remediation:
    """Return the remedy that takes the first version or a newer one, which still has what others may import from it."""
    text = f"install {name} {first} or newer"
    dropped = next((removed for removed in REMOVED if removed.by == name), None)
    if dropped is not None:
        clauses = [f">={first}", f"<{dropped.version}"]
        if not disagreement(case, {name: clauses}):
            text += f", older than {dropped.version}, which dropped {dropped.module}"
            return another_version(case, name, installed, clauses, text)
    return another_version(case, name, installed, [f">={first}"], text)


def _finding(case: CheckContext, removed: Removed, users: list[GoneModule]) -> Finding:
    first = users[0]
    provider = case.facts[Distributions].active(removed.by)
    if removed.by == "python":
        whose = f"which Python {case.facts[Interpreter].minor} does not have any more"
    elif provider is not None:
        whose = f"which {provider.name} {provider.version} does not have any more"
    else:
        whose = f"which {removed.by} brought, and that is not installed"
    more = f" and {counted(len(users) - 1, 'other package')}" if len(users) > 1 else ""
    if removed.optional:
        whose = "which is not installed and which its metadata does not require"
    return Finding(
        code=CODE,
        name=NAME,
        severity="note" if removed.optional else "error" if first.stops else "warning",
        confidence="high",
        title=f"{first.owner} {first.owner_version}{more} imports {removed.module}, {whose}",
        subject=removed.module,
        evidence=tuple(
            f"{user.path}:{user.line}: "
            + (f"`import {user.stops}` raises ModuleNotFoundError" if user.stops else "that module cannot be imported")
            for user in users
        ),
        remediation=_remedy(case, removed, users, provider.version if provider else ""),
        causes=(f"dist:{removed.by}",) if removed.by != "python" else (),
        symptom_of=(f"shadow:{removed.by}",),
    )


def _remedy(case: CheckContext, removed: Removed, users: list[GoneModule], installed: str) -> Remediation:
    names = " and ".join(dict.fromkeys(user.owner for user in users))
    if removed.optional:
        return Remediation(text=f"If {names} is used, install the {removed.by} that belongs to the installed torch")
    newer = f"a version of {names} that does without it, if there is one"
    need = parse_need(removed.remedy) if removed.remedy else None
    if need is None:
        return Remediation(text=f"Install {newer}, or use a Python older than {removed.version}")
    clauses = [need.specifier] if need.specifier else []
    return another_version(case, need.name, installed, clauses, f"install {removed.remedy}, or {newer}")
