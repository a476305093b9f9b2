"""What holds for every test: signals, how property tests draw, and what a venv without torch leaves out."""

import atexit
import functools
import importlib.util
import os
import shutil
import signal
import sysconfig
import tempfile
import threading
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import HealthCheck, settings

# A runner that starts the tests in the background hands SIGINT on as ignored, nohup hands SIGHUP on, to every child.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A printed command names uv's path where PATH has none: it has one here, as a user's has after an install of uv.
if (_UV := Path(sysconfig.get_path("scripts"), "uv")).exists():
    _ON_PATH = tempfile.mkdtemp(prefix="uv-on-path-")
    atexit.register(shutil.rmtree, _ON_PATH)
    Path(_ON_PATH, "uv").symlink_to(_UV)
    os.environ["PATH"] += f"{os.pathsep}{_ON_PATH}"

# A busy machine makes examples slow, which says nothing about them.
_UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The same examples in every run: a red test is the change's fault. `make properties` draws others.
settings.register_profile("seeded", derandomize=True, **_UNHURRIED)
settings.register_profile("random", derandomize=False, print_blob=True, **_UNHURRIED)
settings.load_profile("seeded")

_TESTS = Path(__file__).parent
_NEED_TORCH = (_TESTS / "trainer", _TESTS / "race")
# They are half of the run: begun last, one of them would keep one core busy and leave the others idle.
_LONGEST = [
    _TESTS / f"{name}.py"
    for name in (
        "closure/test_closure", "trainer/test_run", "integration/test_network_faults", "launchers/test_launchers",
        "integration/test_cache_inductor", "integration/test_faults_mount", "integration/test_gate_distribution",
        "integration/test_restore_failures", "integration/test_repair", "integration/test_bisect",
        "integration/test_repair_makers", "release/test_installed", "integration/test_foreign_locks",
        "integration/test_capture", "formats/test_page", "hostile/test_hostile_venv", "hostile/test_hostile_names",
    )
]  # fmt: skip
# A module that takes one of these makes real venvs, links libraries, or starts the command line.
_STARTING = {
    f"tests.factories.{name}"
    for name in ("examine_venv", "make_elf", "make_incident", "make_stack", "make_venv", "run_envdoctor", "served")
}
_TORCH_IMPORTS = importlib.util.find_spec("torch") is not None
_TORCH_FILES = Path(sysconfig.get_path("purelib"), "torch/__init__.py").is_file()


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out folders whose modules import torch, where there is none; the report header says so."""
    return True if collection_path in _NEED_TORCH and not _TORCH_IMPORTS else None


def pytest_runtest_setup() -> None:
    """Let Ctrl-C interrupt again: a test may have imported the program, which sets it aside until it can answer."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str | None:
    """Name what a venv without torch leaves out."""
    if _TORCH_IMPORTS:
        return None
    left_out = ", ".join(str(folder.relative_to(_TESTS.parent)) for folder in _NEED_TORCH)
    return f"torch is not installed: {left_out} and tests marked torch_stack are left out (`make test` has it)"


@functools.cache
def _starts(module: ModuleType) -> bool:
    return any(getattr(value, "__module__", "") in _STARTING for value in vars(module).values())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; mark what builds; skip what reads the installed torch where there is none."""
    places = {path: at for at, path in enumerate(_LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))
    for item in items:
        if isinstance(item, pytest.Function) and _starts(item.module):
            item.add_marker("builds")
    if _TORCH_FILES:
        return
    for item in items:
        if item.get_closest_marker("torch_stack"):
            item.add_marker(pytest.mark.skip(reason="torch is not installed in the venv of the tests"))
