"""The launch gate as one Python file, for people who may not add a distribution to their environment."""

import base64
import json
import zlib

from envdoctor import __version__
from envdoctor.gate_package.modules import modules

PACKAGE = "_envdoctor_gate"
"""Not the distribution's name: an environment may have both."""
NODE_PACKAGE = "_envdoctor_node"

_LOADER = '''\
class _Sources:
    """Finds and loads the modules in this file: a path entry finder (PEP 302) for the folders that it makes up."""

    def __init__(self):
        import base64, json, zlib

        self.texts = json.loads(zlib.decompress(base64.b85decode("".join(_MODULES.split()))))
        self.root = __file__

    def load(self):
        import importlib.util

        for name, (is_package, _) in self.texts.items():
            if is_package:
                # What import looks up for a package's folder, so that neither sys.path nor sys.meta_path is changed.
                sys.path_importer_cache[self.place(name)] = self
        spec = self.find_spec(_PACKAGE)
        module = importlib.util.module_from_spec(spec)
        sys.modules[_PACKAGE] = module
        self.exec_module(module)

    def place(self, name):
        return self.root + "/" + name.replace(".", "/")

    def find_spec(self, name, target=None):
        import importlib.machinery

        if name not in self.texts:
            return None
        is_package = self.texts[name][0]
        origin = self.place(name) + ("/__init__.py" if is_package else ".py")
        spec = importlib.machinery.ModuleSpec(name, self, origin=origin, is_package=is_package)
        spec.has_location = True
        if is_package:
            spec.submodule_search_locations = [self.place(name)]
        return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__
        exec(compile(self.texts[name][1], module.__spec__.origin, "exec", dont_inherit=True), module.__dict__)

    def get_source(self, name):
        return self.texts[name][1]

    def is_package(self, name):
        return self.texts[name][0]

    def iter_modules(self, prefix=""):
        # pkgutil asks the finder of one folder, and only the checks are walked.
        head = _PACKAGE + ".checks."
        for name, (is_package, _) in self.texts.items():
            if name.startswith(head) and "." not in name[len(head) :]:
                yield prefix + name[len(head) :], is_package

    def invalidate_caches(self):
        """Nothing here changes."""
'''

_HEAD = '''"""The launch gate of envdoctor {version} in one file, without dependencies. At the top of a train script:

    import envdoctor_gate  # or what this file is called
    envdoctor_gate.require("PROFILE")

Written by `envdoctor gate write`; write it again instead of editing it. The modules are the source of envdoctor and of
packaging (MIT; Apache-2.0 OR BSD-2-Clause), compressed; they are loaded from here when `require` is called.
Profiles are looked up in `profiles/` of the current folder and its parents, or given as a path.
"""

# ruff: noqa
# mypy: ignore-errors
import sys

__all__ = ["__version__", "require"]
__version__ = "{version}"
_PACKAGE = "{package}"


def require(profile, *, mode=None, reason=""):
    """Return what the profile says when this process may start on it; else say why, cause first, and raise SystemExit.

    `mode` (default: $ENVDOCTOR_GATE, else "enforce") may be "warn" or "off"; both need a `reason` (or
    $ENVDOCTOR_GATE_REASON), which is logged. Exit codes: 1 for findings, 2 for bad input, 3 for "could not tell".
    """
    return _gate().require(profile, mode=mode, reason=reason)


def _gate():
    import importlib

    if _PACKAGE not in sys.modules:
        _Sources().load()
    return importlib.import_module(_PACKAGE + ".gate")


{loader}

_MODULES = """
{modules}
"""
'''


# Read from standard input by a Python of a node; the modules seem to be in a folder that does not exist.
_PROGRAM = '''\
"""envdoctor {version}, to be read from standard input: examines an environment and prints one answer."""
import sys

_PACKAGE = "{package}"
__file__ = "/envdoctor-of-another-machine"


{loader}

_MODULES = """
{modules}
"""

_Sources().load()
import importlib
importlib.import_module(_PACKAGE + "{entry}").main(sys.argv[1:])
'''


def single_file() -> str:
    """Return the file's text, made of the source of this installation."""
    return _filled(_HEAD, PACKAGE, ())


def program(entry: str) -> str:
    """Return a program that reads no file: all modules that `envdoctor.ENTRY` needs, and a call of its `main`."""
    return _filled(_PROGRAM, NODE_PACKAGE, (f"envdoctor.{entry}",)).replace("{entry}", f".{entry}")


def _filled(template: str, package: str, entries: tuple[str, ...]) -> str:
    found = {module.name: [module.is_package, module.text] for module in modules(package, entries)}
    found[package] = [
        True,
        f'"""The launch gate of envdoctor, loaded from one file."""\n__version__ = "{__version__}"\n',
    ]
    found[f"{package}.vendored"] = [True, ""]
    packed = base64.b85encode(zlib.compress(json.dumps(dict(sorted(found.items()))).encode(), 9)).decode()
    lines = "\n".join(packed[at : at + 118] for at in range(0, len(packed), 118))
    filled = template.replace("{loader}", _LOADER).replace("{version}", __version__).replace("{package}", package)
    return filled.replace("{modules}", lines)
