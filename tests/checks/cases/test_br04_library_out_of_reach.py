"""CUDA 13's wheels moved, and an extension's RUNPATH does not follow (openvdb/fvdb-core issue 648)."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from envdoctor.facts.host import Host
from tests.factories.examine_venv import environment_after, outline, verdict_of
from tests.factories.make_cuda import host_without_cache, make_linked_torch, object_bytes, real_error
from tests.factories.make_venv import Venv, install, make_venv
from tests.factories.make_wheel import make_wheel

ERROR = "libnvrtc.so.13: cannot open shared object file: No such file or directory"
TITLE = (
    "fvdb/_fvdb_cpp.so of fvdb-core 0.5.0 cannot be loaded: libnvrtc.so.13: cannot open shared object file: No such "
    "file or directory"
)
LOAD = 'import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), "_fvdb_cpp.so"))\n'
NVRTC = "nvidia/cu13/lib/libnvrtc.so.13"
BUILTINS = "nvidia/cu13/lib/libnvrtc-builtins.so.13.0"


def _venv(root: Path, text: str = LOAD) -> Venv:
    wheels = root / "wheels"
    extension = object_bytes("_fvdb_cpp.so", stubs={"libnvrtc.so.13": ()}, runpath="$ORIGIN")
    nvrtc = {NVRTC: object_bytes("libnvrtc.so.13"), BUILTINS: object_bytes("libnvrtc-builtins.so.13.0")}
    return make_venv(
        root / "venv",
        make_wheel(wheels, "nvidia-cuda-nvrtc", "13.0.88", files=nvrtc),
        make_wheel(
            wheels, "fvdb-core", "0.5.0", files={"fvdb/__init__.py": text, "fvdb/_fvdb_cpp.so": extension}
        ),
    )  # fmt: skip


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return host_without_cache(tmp_path / "home")


def test_br04_no_search_path_leads_there(tmp_path: Path, host: Host) -> None:
    venv = _venv(tmp_path)
    assert real_error(venv, "import fvdb", host) == f"OSError: {ERROR}"
    verdict = verdict_of(venv.prefix, host)
    assert outline(verdict, tmp_path) == [f"error ED307 {TITLE}"]
    (finding,) = verdict.findings
    assert finding.evidence == (
        f"libnvrtc.so.13 is at {NVRTC} (nvidia-cuda-nvrtc 13.0.88), where none of its search paths leads",
        "importing fvdb-core opens it, and lets the error through",
    )
    full = venv.site_packages / NVRTC
    # The trap is LD_LIBRARY_PATH in the launch script.
    assert finding.remediation.commands == ()
    assert finding.remediation.text == (
        f"Import torch (2.9 or newer, a CUDA 13 build) before fvdb-core, or open the library first: "
        f'ctypes.CDLL("{full}", mode=ctypes.RTLD_GLOBAL). A build of fvdb-core whose RUNPATH leads there needs '
        "no such step. Do not put the folder on LD_LIBRARY_PATH"
    )
    preload = f'import ctypes; ctypes.CDLL("{full}", mode=ctypes.RTLD_GLOBAL); import fvdb'
    assert real_error(venv, preload, host) == ""


def test_br04_mended_by_a_torch_that_opens_it(tmp_path: Path, host: Host) -> None:
    venv = _venv(tmp_path)
    install(venv, make_linked_torch(tmp_path / "wheels", "2.11.0", "13.0", needs={"libnvrtc.so.13": ()}))
    assert real_error(venv, "import torch, fvdb", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()


def test_br04_it_works_by_a_variable_alone(tmp_path: Path, host: Host) -> None:
    venv = _venv(tmp_path)
    lib = venv.site_packages / "nvidia/cu13/lib"
    accident = replace(host, environ={**host.environ, "LD_LIBRARY_PATH": str(lib)})
    assert real_error(venv, "import fvdb", accident) == ""
    verdict = verdict_of(venv.prefix, accident)
    assert outline(verdict, tmp_path) == ["warning ED307 fvdb-core finds libnvrtc.so.13 through LD_LIBRARY_PATH alone"]
    assert real_error(venv, "import fvdb", environment_after(accident, "unset LD_LIBRARY_PATH")) == f"OSError: {ERROR}"


def test_br04_a_package_that_opens_it_itself_is_no_fault(tmp_path: Path, host: Host) -> None:
    own = (
        "import ctypes, os\n"
        "for name in ('../nvidia/cu13/lib/libnvrtc.so.13', '_fvdb_cpp.so'):\n"
        "    ctypes.CDLL(os.path.join(os.path.dirname(__file__), name), mode=ctypes.RTLD_GLOBAL)\n"
    )
    venv = _venv(tmp_path, own)
    assert real_error(venv, "import fvdb", host) == ""
    assert verdict_of(venv.prefix, host).findings == ()


def test_br04_what_opens_the_library_may_be_bytecode(tmp_path: Path, host: Host) -> None:
    """Whether the package opens what is there cannot be read without its source; ED202 says that it is missing."""
    library = "ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'deps', 'libmine.so'), mode=ctypes.RTLD_GLOBAL)\n"
    files: dict[str, bytes | str] = {
        "pkg/__init__.py": f"import ctypes, os\n{library}",
        "pkg/_C.so": object_bytes("_C.so", stubs={"libmine.so": ("x",)}, source="void *PyInit__C(void) { return 0; }"),
        "pkg/deps/libmine.so": object_bytes("libmine.so", exports=["x"]),
    }
    wheels = tmp_path / "wheels"
    torch = make_linked_torch(wheels, "2.8.0+cu128", "12.8", needs={})
    venv = make_venv(tmp_path / "venv", torch, make_wheel(wheels, "pkg", "1", files=files))
    assert verdict_of(venv.prefix, host).findings == ()
    source = venv.site_packages / "pkg/__init__.py"
    subprocess.run([venv.python, "-m", "compileall", "-q", "-b", source], check=True)
    source.unlink()
    assert real_error(venv, f"import pkg, ctypes; ctypes.CDLL('{source.parent}/_C.so')", host) == ""
    assert outline(verdict_of(venv.prefix, host), tmp_path) == [
        "warning ED202 1 module of pkg 1 without source: what is imported is bytecode that nothing verifies"
    ]
