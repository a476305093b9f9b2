"""Files of a package of Debian's that are missing from the system's Python.

What it finds:
    Python files that dpkg lists in dist-packages and that are not there; with `--deep` also those of other contents,
    such as a wheel of pip's unpacked over them. Looked at where `/usr/lib/python3/dist-packages` is on the search path:
    for the system's Python, and for a venv with `--system-site-packages` over it. Only packages called python3-NAME.

Why it matters:
    Most of these packages come without a RECORD, so that no other check looks at their files; `apt-get` and `pip check`
    do not either.

Example:
    `numpy/core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so` of python3-numpy is gone.

Fix:
    `apt-get install --reinstall` writes them again, in the newest version that the index has; it asks first where that
    changes other packages.
"""

import shlex
from collections.abc import Iterator

from envdoctor.analysis.context import CheckContext, DoesNotApplyError
from envdoctor.analysis.damage import listed
from envdoctor.model.finding import Finding, Remediation
from envdoctor.model.wording import counted
from envdoctor.probes.venv.system_packages import METADATA, SystemPackage, SystemPackages

CODE = "ED210"
NAME = "damaged-system-package"
AREA = "Installed files"


def run(case: CheckContext) -> Iterator[Finding]:
    """Yield one finding for each package that is not whole."""
    packages = case.facts[SystemPackages]
    if not packages.on_path:
        raise DoesNotApplyError("no package of the system's is on the search path")
    for package in packages.damaged:
        yield _finding(package)


def _finding(package: SystemPackage) -> Finding:
    parts = [f"{len(package.missing)} missing"] if package.missing else []
    parts += [f"{len(package.changed)} changed"] if package.changed else []
    code = [path for path in package.missing if not any(f"{end}/" in f"{path}/" for end in METADATA)]
    evidence = [f"missing: {listed(package.missing)}"] if package.missing else []
    evidence += [f"of other contents than dpkg recorded: {listed(package.changed)}"] if package.changed else []
    return Finding(
        code=CODE,
        name=NAME,
        severity="error" if code else "warning",
        confidence="high",
        title=f"{package.name}, a package of the system's: {' and '.join(parts)} of {counted(package.files, 'file')}",
        subject=package.name,
        evidence=tuple(evidence),
        remediation=Remediation(
            text="Reinstall the package; what pip wrote over its files is replaced",
            commands=(f"sudo apt-get install --reinstall {shlex.quote(package.name)}",),
        ),
    )
