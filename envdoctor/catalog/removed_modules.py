"""Modules that a later version of what brought them does not have any more, as data.

Sources: setuptools' NEWS (82.0.0 removed pkg_resources); "What's New in Python 3.12" (PEP 632 distutils, imp, asyncore,
asynchat, smtpd) and "What's New in Python 3.13" (PEP 594).
"""

from envdoctor.model.frozen import frozen


@frozen
class Removed:
    """One module."""

    module: str
    by: str
    """Distribution that dropped it; "python" for the standard library."""
    version: str
    """First version without it ("82", "3.12"); empty for one that is there in every version."""
    remedy: str = ""
    """Requirement that brings it back; empty where only another Python or another version of the importer does."""

    @property
    def optional(self) -> bool:
        """True for what a package imports, and its metadata may leave to the user to install."""
        return not self.version


_GONE_IN_312 = ("imp", "asyncore", "asynchat", "smtpd")
_GONE_IN_313 = (
    "aifc", "audioop", "cgi", "cgitb", "chunk", "crypt", "imghdr", "lib2to3", "mailcap", "nntplib", "pipes", "sndhdr",
    "spwd", "sunau", "telnetlib", "uu", "xdrlib",
)  # fmt: skip
REMOVED = (
    Removed(module="pkg_resources", by="setuptools", version="82", remedy="setuptools<82"),
    # setuptools puts its own copy in the place of the removed one, by a .pth file.
    Removed(module="distutils", by="python", version="3.12", remedy="setuptools"),
    *(Removed(module=name, by="python", version="3.12") for name in _GONE_IN_312),
    *(Removed(module=name, by="python", version="3.13") for name in _GONE_IN_313),
    # Each belongs to one torch, so that packages leave it to the user: qwen-vl-utils 0.0.14 imports torchvision.
    *(Removed(module=name, by=name, version="") for name in ("torchaudio", "torchvision")),
)

NEEDS_OLDER_PYTHON = (("setuptools", "66.1", "3.12"), ("pip", "23.1.2", "3.12"))
"""(Distribution, first version that works, Python): older ones take distutils or pkgutil.ImpImporter, which Python has
not had since then, and their metadata allows it. Found by `import setuptools` and `pip list` with CPython 3.12.1."""

LINKED_BY_NAME = (
    "accelerate",
    "datasets",
    "diffusers",
    "huggingface-hub",
    "optimum",
    "peft",
    "sentence-transformers",
    "torchao",
    "torchtune",
    "transformers",
    "trl",
)
"""Distributions that import names out of each other's modules, under requirements that are wider than those names."""

HELD_BY_OLDER = {"torchao.dtypes.nf4tensor": "<0.18"}
"""Module of one of those -> the versions that have it, where newer ones dropped it. Read from the wheels of torchao 0.9
to 0.18.0; torchtune 0.6.1 imports it and names no torchao in its metadata."""
