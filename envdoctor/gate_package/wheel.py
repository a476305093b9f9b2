"""The distribution `envdoctor-gate`: a pure wheel without dependencies, the same bytes for the same sources."""

import base64
import hashlib
import io
import zipfile

from envdoctor import __version__
from envdoctor.gate_package.modules import modules
from envdoctor.gate_package.shipped import licences, shipped
from envdoctor.model.frozen import frozen

NAME = "envdoctor-gate"
PACKAGE = "envdoctor_gate"
_INFO = f"{PACKAGE}-{__version__}.dist-info"
# A zip file cannot say an earlier time (APPNOTE 4.4.6).
_WHEN = (1980, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16

INIT = f'''"""The launch gate of envdoctor: lets a train script start on the stack of its profile and on no other.

    import envdoctor_gate
    envdoctor_gate.require("PROFILE")
"""

TYPE_CHECKING = False  # importing typing would take longer than everything else here
if TYPE_CHECKING:
    from envdoctor_gate.gate import require

__all__ = ["__version__", "require"]
__version__ = "{__version__}"


def __getattr__(name: str) -> object:
    # A script that imports the gate and does not call it pays nothing.
    if name == "require":
        from envdoctor_gate.gate import require

        return require
    raise AttributeError(f"module {{__name__!r}} has no attribute {{name!r}}")
'''
_METADATA = f"""Metadata-Version: 2.4
Name: {NAME}
Version: {__version__}
Summary: The launch gate of envdoctor: lets a train script start on the stack of its profile and on no other
License-Expression: MIT AND (Apache-2.0 OR BSD-2-Clause)
Requires-Python: >=3.11
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3 :: Only
Classifier: Typing :: Typed
Description-Content-Type: text/markdown
"""
_DESCRIPTION = """
The two lines at the top of a train script, before `import torch`:

    import envdoctor_gate
    envdoctor_gate.require("PROFILE")

It has no dependencies and brings no command. `envdoctor capture --with-gate` and `envdoctor lock --with-gate` put it
into a lock. `packaging` is included under `envdoctor_gate.vendored`, with its licences.
"""
_WHEEL = f"Wheel-Version: 1.0\nGenerator: envdoctor {__version__}\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@frozen
class GateWheel:
    """The wheel of the gate."""

    filename: str
    version: str
    content: bytes
    sha256: str


def gate_wheel() -> GateWheel:
    """Return the wheel, built from the source of this installation."""
    content = _zipped(_files())
    return GateWheel(
        filename=f"{PACKAGE}-{__version__}-py3-none-any.whl",
        version=__version__,
        content=content,
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _files() -> dict[str, bytes]:
    """Return path -> contents, RECORD last."""
    found = {module.path: module.text.encode() for module in modules(PACKAGE)}
    found[f"{PACKAGE}/__init__.py"] = INIT.encode()
    found[f"{PACKAGE}/vendored/__init__.py"] = b'"""Libraries that the gate brings along."""\n'
    found[f"{PACKAGE}/py.typed"] = b""
    found |= {f"{PACKAGE}/_data/{name}": content for name, content in shipped().items()}
    found = dict(sorted(found.items()))
    texts = licences()
    files = "".join(f"License-File: {name}\n" for name in sorted(texts))
    found[f"{_INFO}/METADATA"] = (_METADATA + files + _DESCRIPTION).encode()
    found[f"{_INFO}/WHEEL"] = _WHEEL.encode()
    found |= {f"{_INFO}/licenses/{name}": content for name, content in sorted(texts.items())}
    rows = [f"{path},sha256={_recorded(content)},{len(content)}\n" for path, content in found.items()]
    found[f"{_INFO}/RECORD"] = "".join([*rows, f"{_INFO}/RECORD,,\n"]).encode()
    return found


def _recorded(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def _zipped(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for path, content in files.items():
            entry = zipfile.ZipInfo(path, _WHEN)
            entry.compress_type, entry.external_attr, entry.create_system = zipfile.ZIP_DEFLATED, _MODE, 3
            archive.writestr(entry, content)
    return made.getvalue()
