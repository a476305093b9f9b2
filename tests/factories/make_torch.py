"""Tiny wheels that stand for torch and its companions."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.factories.make_wheel import make_wheel


def make_torch(
    folder: Path,
    version: str,
    cuda: str | None,
    *,
    stated: str = "",
    requires: Iterable[str] = (),
    files: Mapping[str, bytes | str] | None = None,
    scripts: Mapping[str, str] | None = None,
) -> Path:
    """Make a torch wheel; its version.py states that CUDA version, and `stated` or else the wheel's own version."""
    text = f"__version__ = {(stated or version)!r}\ndebug = False\ncuda = {cuda!r}\ngit_version = 'abc'\nhip = None\n"
    return make_wheel(
        folder,
        "torch",
        version,
        files={
            "torch/__init__.py": "from .version import __version__\n",
            "torch/version.py": text,
            "torch/distributed/run.py": "def main(): print('torchrun')\n",
            **(files or {}),
        },
        requires=requires,
        scripts=scripts,
    )
