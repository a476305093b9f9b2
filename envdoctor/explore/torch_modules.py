"""Which modules of other distributions `import torch` certainly imports: the unguarded imports of its own source."""

from collections.abc import Collection

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_prefix
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.import_closure import Closure, module_file, parsed_imports
from envdoctor.probes.venv.search_path import SearchPath

_MAXIMUM_SOURCE = 1024 * 1024


def lost_module(reading: Reading, hidden: Collection[str]) -> str:
    """Return the first module that `import torch` would not find any more without the hidden files; empty for none.

    Only modules and packages with a source file are judged; an import in `try` or `if` may never run and is left out.
    """
    build = reading.fact(TorchBuild)
    if not build.present:
        return ""
    site = build.folder.rpartition("/")[0]
    folders = [entry.path for entry in reading.fact(SearchPath).entries]
    judged: dict[str, bool] = {"torch": False}
    for path, found in Closure(site=site, package="torch").follow().reached.items():
        for one in found:
            module = one.module.partition(".")[0]
            if module not in judged:
                judged[module] = _goes(module, folders, hidden) and _is_code(path, module)
            if judged[module]:
                return module
    return ""


def _goes(module: str, folders: Collection[str], hidden: Collection[str]) -> bool:
    places = [path for folder in folders if (path := module_file(folder, module)[0])]
    return bool(places) and all(path in hidden for path in places)


def _is_code(path: str, module: str) -> bool:
    """Tell by the syntax tree: searched text may take a docstring for code."""
    return any(one.module.partition(".")[0] == module for one in parsed_imports(read_prefix(path, _MAXIMUM_SOURCE)))
