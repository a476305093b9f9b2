"""Requirements that the requirer's own source compares when it is imported: that import raises."""

from pathlib import Path

import pytest

from envdoctor.standards.lock import parse
from tests.factories.examine_venv import commands_of, mend, outline, verdict_of
from tests.factories.interpreter import raised
from tests.factories.make_venv import make_venv
from tests.factories.make_wheel import lock_text, make_wheel

PYDANTIC = {
    "pydantic/version.py": "_COMPATIBLE_PYDANTIC_CORE_VERSION = '2.41.5'\n",
    "pydantic/__init__.py": """import pydantic_core as c
from .version import _COMPATIBLE_PYDANTIC_CORE_VERSION as w
if c.__version__ != w:
    raise SystemError(f"The installed pydantic-core version ({c.__version__}) is incompatible with {w}")
""",
}
NUMBA = {
    "numba/__init__.py": """def _ensure_critical_deps():
    import numpy as np
    numpy_version = tuple(map(int, np.__version__.split(".")[:2]))

    if numpy_version < (1, 22):
        raise ImportError("Numba needs NumPy 1.22 or greater.")

    if numpy_version > (2, 3):
        raise ImportError("Numba needs NumPy 2.3 or less.")


_ensure_critical_deps()
"""
}
REQUIRE = """import importlib.metadata


def check(name, minimum):
    have = importlib.metadata.version(name)
    if tuple(map(int, have.split("."))) < tuple(map(int, minimum.split("."))):
        raise ImportError(f"{name}>={minimum} is required for a normal functioning of this module, but found {have}")
"""
TRANSFORMERS = {
    "transformers/__init__.py": "from . import dependency_versions_check\n",
    "transformers/dependency_versions_table.py": """deps = {
    "accelerate": "accelerate>=1.1.0",
    "regex": "regex>=2025.10.22",
    "tqdm": "tqdm>=4.27",
}
""",
    "transformers/dependency_versions_check.py": """from .dependency_versions_table import deps
from .versions import check

pkgs_to_check_at_runtime = [
    "python",
    "tqdm",
    "regex",
    "accelerate",
]

for pkg in pkgs_to_check_at_runtime:
    if pkg in deps and pkg != "accelerate":
        check(*deps[pkg].split(">="))
""",
    "transformers/versions.py": REQUIRE,
}
DIFFUSERS = {
    path.replace("transformers", "diffusers"): text
    for path, text in TRANSFORMERS.items()
    if not path.endswith("_check.py")
} | {
    "diffusers/dependency_versions_check.py": """from .dependency_versions_table import deps
from .versions import check

pkgs_to_check_at_runtime = "python regex tqdm".split()
for pkg in pkgs_to_check_at_runtime:
    if pkg in deps:
        check(*deps[pkg].split(">="))
"""
}
MATPLOTLIB = {
    "matplotlib/__init__.py": """import importlib


def _check_versions():
    for modname, minver in [
            ("numpy", "1.25"),
    ]:
        module = importlib.import_module(modname)
        if tuple(map(int, module.__version__.split("."))) < tuple(map(int, minver.split("."))):
            raise ImportError(f"Matplotlib requires {modname}>={minver}; you have {module.__version__}")


_check_versions()
"""
}
PANDAS = {
    "pandas/__init__.py": "from .compat import numpy\n",
    "pandas/compat/__init__.py": "",
    "pandas/compat/numpy/__init__.py": """import numpy
_min_numpy_ver = "2.0.2"
if tuple(map(int, numpy.__version__.split("."))) < tuple(map(int, _min_numpy_ver.split("."))):
    raise ImportError(f"Please upgrade numpy to >= {_min_numpy_ver} to use this pandas version.")
""",
}
JAX = {
    "jax/version.py": "_minimum_jaxlib_version = '0.6.1'\n",
    "jax/__init__.py": """import jaxlib
from .version import _minimum_jaxlib_version
if tuple(map(int, jaxlib.__version__.split("."))) < tuple(map(int, _minimum_jaxlib_version.split("."))):
    raise RuntimeError(f"jaxlib is version {jaxlib.__version__}, but this version of jax requires version >= "
                       f"{_minimum_jaxlib_version}.")
""",
}
CASES = {
    "pydantic": (PYDANTIC, "2.12.5", "==2.41.5", "pydantic-core", "2.41.4", "2.41.5", "SystemError"),
    "numba": (NUMBA, "0.62.0", "<2.4,>=1.22", "numpy", "2.4.0", "2.3.5", "ImportError"),
    "transformers": (TRANSFORMERS, "5.6.0", ">=2025.10.22", "regex", "2024.1.1", "2025.11.1", "ImportError"),
    "diffusers": (DIFFUSERS, "0.40.0", ">=2025.10.22", "regex", "2024.1.1", "2025.11.1", "ImportError"),
    "matplotlib": (MATPLOTLIB, "3.10.0", ">=1.25", "numpy", "1.24.0", "1.26.0", "ImportError"),
    "pandas": (PANDAS, "3.0.0", ">=2.0.2", "numpy", "2.0.1", "2.0.2", "ImportError"),
    "jax": (JAX, "0.7.0", "<=0.7.0,>=0.6.1", "jaxlib", "0.5.0", "0.7.0", "RuntimeError"),
}


@pytest.mark.parametrize("requirer", CASES)
@pytest.mark.parametrize("declared", [True, False], ids=["metadata-says-so", "source-alone"])
def test_n08_what_the_requirer_compares_at_import_is_an_error(tmp_path: Path, requirer: str, declared: bool) -> None:  # noqa: FBT001
    files, version, specifier, name, bad, good, exception = CASES[requirer]
    wheels = tmp_path / "wheels"
    requires = [f"{name}{specifier}"] if declared else [name]
    venv = make_venv(
        tmp_path / "venv",
        make_wheel(wheels, requirer, version, requires=requires, files=files),
        make_wheel(wheels, name, bad),
        *([make_wheel(wheels, "tqdm", "4.67.1")] if requirer in ("transformers", "diffusers") else []),
    )
    assert raised(venv.python, f"import {requirer}").startswith(f"{exception}: ")
    (finding,) = (item for item in verdict_of(venv.prefix).findings if item.code == "ED406")
    shown = (
        specifier
        if declared or requirer not in ("numba", "jax")
        else {"numba": ">=1.22,<2.4", "jax": ">=0.6.1,<=0.7.0"}[requirer]
    )
    assert (finding.severity, finding.title) == (
        "error",
        f"{requirer} {version} requires {name}{shown}, and {bad} is installed",
    )
    assert finding.evidence[-1].endswith(f" compares them: `import {requirer}` raises")
    make_wheel(wheels, name, good)
    mend(finding, wheels=wheels, cache=tmp_path / ".uv-cache")
    assert raised(venv.python, f"import {requirer}") == ""
    assert [item for item in verdict_of(venv.prefix).findings if item.code == "ED406"] == []


def test_n08_the_first_line_and_the_command(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    pydantic = make_wheel(wheels, "pydantic", "2.12.5", requires=["pydantic-core==2.41.5"], files=PYDANTIC)
    core = make_wheel(wheels, "pydantic-core", "2.41.4")
    venv = make_venv(tmp_path / "venv", pydantic, core)
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED406 pydantic 2.12.5 requires pydantic-core==2.41.5, and 2.41.4 is installed"
    ]
    assert commands_of(verdict.findings[0], tmp_path) == [
        "uv pip install --python [TMP]/venv/bin/python --no-deps pydantic-core==2.41.5"
    ]
    # A lock that pins both so does not make the import work.
    lock = parse(lock_text(pydantic, core), "good.txt")
    assert [item.severity for item in verdict_of(venv.prefix, lock=lock).findings] == ["error"]


def test_n08_what_is_asked_for_by_a_version_that_is_to_be_replaced_hangs_under_that(tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    venv = make_venv(
        tmp_path / "venv",
        make_wheel(wheels, "pydantic", "2.12.5", requires=["pydantic-core==2.41.5"], files=PYDANTIC),
        make_wheel(wheels, "pydantic-core", "2.41.4", requires=["hub<1"]),
        make_wheel(wheels, "hub", "2"),
    )
    make_wheel(wheels, "pydantic-core", "2.41.5", requires=["hub<3,>=2"])
    verdict = verdict_of(venv.prefix)
    assert outline(verdict, tmp_path) == [
        "error ED406 pydantic 2.12.5 requires pydantic-core==2.41.5, and 2.41.4 is installed",
        "  warning ED406 pydantic-core 2.41.4 requires hub<1, and 2 is installed",
    ]
    under = verdict.findings[1].remediation
    assert (under.text, under.commands) == (
        "Install nothing for it: pydantic-core 2.41.4 is to be replaced, and the requirement goes with it",
        (),
    )
    mend(verdict.findings[0], wheels=wheels, cache=tmp_path / ".uv-cache")
    assert verdict_of(venv.prefix).findings == ()
