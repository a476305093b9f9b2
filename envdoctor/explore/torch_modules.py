"""Which modules an import certainly takes from other distributions: the unguarded imports of its own source."""

from collections import deque
from collections.abc import Collection

from envdoctor.facts.context import Reading
from envdoctor.facts.regular_file import read_prefix
from envdoctor.probes.loading.torch_build import TorchBuild
from envdoctor.probes.venv.import_closure import Closure, module_file, parsed_imports
from envdoctor.probes.venv.search_path import SearchPath

_MAXIMUM_SOURCE = 1024 * 1024
_MAXIMUM_PACKAGES = 64


def lost_to_torch(reading: Reading, hidden: Collection[str]) -> str:
    """Return the first module that `import torch` would not find any more without the hidden files; empty for none."""
    build = reading.fact(TorchBuild)
    return lost_module(reading, build.folder.rpartition("/")[0], "torch", hidden) if build.present else ""


def lost_module(reading: Reading, site: str, package: str, hidden: Collection[str]) -> str:
    """Return the first module that importing a package of the folder `site` would not find without the hidden files.

    What it imports of other packages in `site` is followed. Only modules and packages with a source file are judged; an
    import in `try` or `if` may never run and is left out. Empty where none is lost.
    """
    folders = [entry.path for entry in reading.fact(SearchPath).entries]
    judged: dict[str, bool] = {package: False}
    waiting = deque([package])
    while waiting:
        for path, found in Closure(site=site, package=waiting.popleft()).follow().reached.items():
            for one in found:
                module = one.module.partition(".")[0]
                if module not in judged:
                    judged[module] = _goes(module, folders, hidden) and _is_code(path, module)
                    if not judged[module] and len(judged) < _MAXIMUM_PACKAGES and module_file(site, module)[0]:
                        waiting.append(module)
                if judged[module]:
                    return module
    return ""


def _goes(module: str, folders: Collection[str], hidden: Collection[str]) -> bool:
    places = [path for folder in folders if (path := module_file(folder, module)[0])]
    return bool(places) and all(path in hidden for path in places)


def _is_code(path: str, module: str) -> bool:
    """Tell by the syntax tree: searched text may take a docstring for code."""
    return any(one.module.partition(".")[0] == module for one in parsed_imports(read_prefix(path, _MAXIMUM_SOURCE)))
