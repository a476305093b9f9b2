"""What is read out of a torch's `__init__.py`: an installed one, and the forms of older and newer releases."""

import sysconfig
from pathlib import Path

import pytest

from envdoctor.catalog.cudalibs import LIBRARIES
from envdoctor.loader.torch_init import ImportPlan, TorchPreload, parse_init
from tests.factories.make_torch_loader import init_text

INSTALLED = Path(sysconfig.get_path("purelib"), "torch/__init__.py")

# The form of torch 2.6 to 2.8: one function for one library, a dict for the case of failure only.
OLDER = """
def _preload_cuda_deps(lib_folder, lib_name):
    for path in sys.path:
        found = glob.glob(os.path.join(path, "nvidia", lib_folder, "lib", lib_name))
        found = found or glob.glob(os.path.join(path, lib_folder, "lib", lib_name))

def _load_global_deps():
    try:
        ctypes.CDLL(global_deps_lib_path, mode=ctypes.RTLD_GLOBAL)
        try:
            # "libother.so.*[0-9]" in a comment is not a library
            if "nvidia/cuda_runtime/lib/libcudart.so" not in _maps:
                return
            _preload_cuda_deps("cuda_nvrtc", "libnvrtc.so.*[0-9]")
            _preload_cuda_deps("nvjitlink", "libnvJitLink.so.*[0-9]")
        except Exception:
            pass
    except OSError as err:
        cuda_libs: _Dict[str, str] = {
            "cublas": "libcublas.so.*[0-9]",
            "nvtx": "libnvToolsExt.so.*[0-9]",
        }
        if t_major >= 12:
            cuda_libs["cufile"] = "libcufile.so.*[0-9]"
        for lib_folder, lib_name in cuda_libs.items():
            _preload_cuda_deps(lib_folder, lib_name)

class SymInt:
    other = ("elsewhere", "libelsewhere.so.*[0-9]")
"""
# The form of torch 2.5: the second preload for two releases of CUDA only.
GATED = OLDER.replace(
    'if "nvidia/cuda_runtime/lib/libcudart.so" not in _maps:',
    'if version.cuda in ["12.4", "12.6"] and "nvidia/cuda_runtime/lib/libcudart.so" not in _maps:',
)
# The form of torch 2.15: nothing is required unless libtorch_global_deps.so has failed.
NEWER = init_text().replace("            _preload_cuda_deps()\n", "            _preload_cuda_deps(required=False)\n")

CUBLAS = TorchPreload(folder="cublas", pattern="libcublas.so.*[0-9]")
NVTX = TorchPreload(folder="nvtx", pattern="libnvToolsExt.so.*[0-9]")
CUFILE = TorchPreload(folder="cufile", pattern="libcufile.so.*[0-9]")
NVRTC = TorchPreload(folder="cuda_nvrtc", pattern="libnvrtc.so.*[0-9]")
NVJITLINK = TorchPreload(folder="nvjitlink", pattern="libnvJitLink.so.*[0-9]")
OLDER_PLAN = ImportPlan(
    global_deps=True,
    after_failure=(CUBLAS, NVTX, CUFILE),
    after_success=(NVRTC, NVJITLINK),
    maps_needle="nvidia/cuda_runtime/lib/libcudart.so",
    plain_folder=True,
)


@pytest.mark.parametrize(
    ("text", "plan"),
    [
        ("", ImportPlan(global_deps=False)),
        ("import ctypes\nctypes.CDLL('libc10.so')\n", ImportPlan(global_deps=False)),
        (OLDER, OLDER_PLAN),
        (
            GATED,
            ImportPlan(
                global_deps=True,
                after_failure=OLDER_PLAN.after_failure,
                after_success=OLDER_PLAN.after_success,
                maps_needle=OLDER_PLAN.maps_needle,
                plain_folder=True,
                only_cuda=("12.4", "12.6"),
            ),
        ),
    ],
    ids=["empty", "no torch", "2.6 to 2.8", "2.5"],
)
def test_forms(text: str, plan: ImportPlan) -> None:
    assert parse_init(text) == plan


@pytest.mark.torch_stack
def test_the_installed_torch_preloads_what_the_catalogue_says() -> None:
    plan = parse_init(INSTALLED.read_text())
    preloaded = [library for library in LIBRARIES if library.preload_folder]
    patterns = [
        TorchPreload(
            folder=str(library.preload_folder),
            pattern=f"{library.builds[0].sonames[0].partition('.so')[0]}.so.*[0-9]",
            required=library.name != "nvtx",
        )
        for library in preloaded
    ]
    assert list(plan.after_failure) == patterns
    assert plan.after_success == plan.after_failure
    assert (plan.maps_needle, plan.only_cuda, plan.major_folder, plan.plain_folder) == ("libcudart.so", (), True, True)


def test_the_newest_form_requires_nothing_after_success() -> None:
    plan = parse_init(NEWER)
    assert [item.pattern for item in plan.after_success] == [item.pattern for item in plan.after_failure]
    assert {item.required for item in plan.after_success} == {False}
    assert [item.pattern for item in plan.after_failure if not item.required] == ["libnvToolsExt.so.*[0-9]"]
