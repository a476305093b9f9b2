"""Shell commands that take one element out of a variable of the environment and leave the others."""

import shlex
from collections.abc import Collection

from envdoctor.analysis.context import CheckContext
from envdoctor.loader.search import split_library_path, split_preload
from envdoctor.probes.machine.environment import Environment


def without_folder(case: CheckContext, folder: str) -> str:
    """Return the shell command that sets PYTHONPATH without that folder, or unsets it where nothing remains."""
    value = case.facts[Environment].value("PYTHONPATH") or ""
    kept = [element for element in value.split(":") if element and element.rstrip("/") != folder.rstrip("/")]
    return f"export PYTHONPATH={shlex.quote(':'.join(kept))}" if kept else "unset PYTHONPATH"


def leave_out_command(case: CheckContext, origin: str, folder: str) -> str:
    """Return the shell command that keeps a folder of another place (user site, PYTHONPATH) out of sys.path."""
    return "export PYTHONNOUSERSITE=1" if origin == "user site" else without_folder(case, folder)


def without_library_folder(case: CheckContext, file: str) -> str:
    """Return the shell command that takes a file's folder out of LD_LIBRARY_PATH and leaves the other elements."""
    environment = case.facts.get(Environment)
    elements = split_library_path((environment.value("LD_LIBRARY_PATH") if environment else None) or "")
    folder = file.rpartition("/")[0]
    kept = [element for element in elements if element and element.rstrip("/") != folder.rstrip("/")]
    return f"export LD_LIBRARY_PATH={shlex.quote(':'.join(kept))}" if kept else "unset LD_LIBRARY_PATH"


def without_preload(case: CheckContext, files: Collection[str]) -> str:
    """Return the shell command that takes these elements out of LD_PRELOAD and leaves the others."""
    environment = case.facts.get(Environment)
    elements = split_preload((environment.value("LD_PRELOAD") if environment else None) or "")
    kept = [element for element in elements if element not in files]
    return f"export LD_PRELOAD={shlex.quote(':'.join(kept))}" if kept else "unset LD_PRELOAD"
