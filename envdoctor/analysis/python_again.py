"""Commands that bring an environment's Python back."""

import shlex

from envdoctor.analysis.context import CheckContext
from envdoctor.model.pattern import pattern
from envdoctor.probes.machine.platform import Platform
from envdoctor.probes.venv.conda import Conda
from envdoctor.probes.venv.interpreter import Interpreter

_PYENV = pattern(r"/\.?pyenv/versions/([^/]+)/")
# uv keeps its own Pythons below .local/share/uv/python, or in UV_PYTHON_INSTALL_DIR under names like these.
_UV_PYTHON = pattern(r"/cpython-3\.\d+\.\d+[^/]*-linux-[^/]+/")


def renew_command(case: CheckContext, base: str = "", flags: str = "") -> str:
    """Return the uv line that links the venv's interpreter and writes its pyvenv.cfg again; the packages stay.

    base: the interpreter or version to take; by default the venv's base by its path while it is there, since a bare
    version can mean any interpreter on PATH. flags: more options for uv, each followed by a space.
    """
    python = case.facts[Interpreter]
    wanted = base or python.base_executable or python.folder.removeprefix("python")
    # uv writes pyvenv.cfg and the scripts to activate from its options alone: left out, the packages of the base would
    # be out of sight, and a venv that can be renamed no longer could.
    kept = "--system-site-packages " if python.is_venv and python.system_site_packages else ""
    kept += "--relocatable " if python.relocatable else ""
    if python.prompt and python.prompt != case.facts.target.rpartition("/")[2]:
        kept += f"--prompt {shlex.quote(python.prompt)} "
    return f"uv venv --allow-existing {flags}{kept}--python {shlex.quote(wanted)} {case.prefix}"


def reinstall_python(case: CheckContext, prefix: str) -> tuple[str, list[str]]:
    """Return how the Python of a prefix that is not a venv comes back: by the tool that put it there, and no other.

    `uv venv` there would overwrite the interpreter of conda or of the system.
    """
    python, conda = case.facts[Interpreter], case.facts.get(Conda)
    version = python.folder.removeprefix("python")
    if conda is not None and (conda.packages or conda.base == prefix):
        command = f"conda install --prefix {shlex.quote(prefix)} --force-reinstall python={version}"
        return "reinstall conda's own Python, in the environment as it is", [command]
    if match := _PYENV.search(f"{prefix}/"):
        return "reinstall this Python of pyenv's; what pip installed into it goes with it", [
            f"pyenv install --force {shlex.quote(match[1])}"
        ]
    if _UV_PYTHON.search(f"{prefix}/"):
        return "reinstall this Python of uv's", [f"uv python install --reinstall {version}"]
    platform = case.facts.get(Platform)
    if platform is not None and platform.debian:
        packages = f"python{version}-minimal libpython{version}-minimal libpython{version}-stdlib"
        return "reinstall the system's Python from its packages", [f"sudo apt-get install --reinstall {packages}"]
    return "reinstall this Python with the package manager that installed it", []
