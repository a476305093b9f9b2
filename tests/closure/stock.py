"""Every wheel that a state may be made of: a CUDA stack that a real interpreter imports, and its companions."""

import sysconfig
from pathlib import Path

from tests.factories.make_cuda import PLAIN_INIT, object_bytes
from tests.factories.make_cuda_stack import VERSION, distribution_of
from tests.factories.make_elf import make_shared, make_stub
from tests.factories.make_torch_loader import LIBRARIES, make_nvidia, make_torch, rpath
from tests.factories.make_wheel import make_wheel

SUFFIX = str(sysconfig.get_config_var("EXT_SUFFIX"))
TAG = "cp{0}-cp{0}-linux_x86_64".format(sysconfig.get_python_version().replace(".", ""))
_TORCHRUN = {"torchrun": "torch.distributed.run:main"}
NCCL = "nvidia/nccl/lib/libnccl.so.2"
CUDNN = "nvidia/cudnn/lib/libcudnn.so.9"
_MODULE = """
struct definition { long head[5]; const char *name; void *doc; long size; void *methods; void *rest[4]; };
static struct definition module = {{1}, "NAME"};
extern void *PyModuleDef_Init(void *);
void *PyInit_NAME(void) { return PyModuleDef_Init(&module); }
"""
BASE = (
    "torch==2.10.0", "triton==3.6.0", "torchvision==0.25.0", "tool==1.0", "quicknum==2.0", "fastattn==1.0",
    "cudaops==1.0", "textkit==5.0", "tokenkit==0.22.2", "spacekit-data==1.0", "spacekit-viz==1.0", "plain==3.0",
    *(f"{distribution_of(name)}=={VERSION}" for name in dict.fromkeys(LIBRARIES.values())),
)  # fmt: skip
"""What every state starts from."""
MODULES = (
    "torch", "triton", "torchvision", "tool", "quicknum", "quicknum._core", "fastattn", "cudaops", "textkit",
    "tokenkit", "spacekit.data", "spacekit.viz", "plain", "plain.deep.inner",
)  # fmt: skip

NEEDS = {"textkit": "tokenkit"} | dict.fromkeys(
    ("torchvision", "fastattn", "cudaops", "oldcuda", "sysneed", "oldtag", "flash_attn", "xformers"), "torch"
)
"""Module -> the one that it imports."""


def make_stock(folder: Path) -> None:
    """Write the wheels into `folder`/wheels."""
    wheels, site = folder / "wheels", folder / "site"
    make_nvidia(site)
    make_torch(site, extension=SUFFIX)
    make_shared(site / "torch/lib/libc10.so", exports=["c10_error", "c10_guard"], rpath=rpath())
    for name in dict.fromkeys(LIBRARIES.values()):
        make_wheel(wheels, distribution_of(name), VERSION, files=_files(site, f"nvidia/{name}"))
    _torches(wheels, site)
    _compiled(wheels, site)
    _plain(wheels)
    for name, path in (("nvidia-nccl-cu13", NCCL), ("nvidia-cudnn-cu13", CUDNN)):
        content = object_bytes(path.rpartition("/")[2], exports=["of_another_major"])
        make_wheel(wheels, name, "13.0", files={path: content})


def _torches(wheels: Path, site: Path) -> None:
    needs = [f"{distribution_of(name)}=={VERSION}" for name in dict.fromkeys(LIBRARIES.values())]
    (site / "torch/distributed").mkdir()
    (site / "torch/distributed/__init__.py").write_text("")
    (site / "torch/distributed/run.py").write_text("def main(): pass\n")
    files = _files(site, "torch")
    requires = [f"{need}; sys_platform == 'linux'" for need in needs] + ["triton==3.6.0"]
    make_wheel(wheels, "torch", "2.10.0", files=files, requires=requires, scripts=_TORCHRUN)
    make_shared(site / "torch/lib/libc10.so", exports=["c10_guard"], rpath=rpath())
    older = _files(site, "torch") | {"torch/version.py": "__version__ = '2.9.0'\ncuda = '12.8'\n"}
    make_wheel(wheels, "torch", "2.9.0", files=older, requires=[*needs, "triton==3.5.0"], scripts=_TORCHRUN)
    plain = {
        "torch/__init__.py": PLAIN_INIT,
        "torch/version.py": "__version__ = '2.10.0+cpu'\ncuda = None\nhip = None\n",
        "torch/lib/libc10.so": object_bytes("libc10.so", exports=["c10_error", "c10_guard"]),
        "torch/lib/libtorch_cpu.so": object_bytes("libtorch_cpu.so"),
    }
    # Not beside the others: `torch==2.10.0` would take it.
    make_wheel(wheels.parent / "cpu", "torch", "2.10.0+cpu", files=plain)
    for version, torch in (("0.25.0", "2.10.0"), ("0.24.0", "2.9.0")):
        text = (
            "import torch\nif torch.__version__.partition('+')[0] != "
            f"{torch!r}: raise RuntimeError('operator torchvision::nms does not exist')\n"
        )
        vision = {"torchvision/__init__.py": text, "torchvision/version.py": f"__version__ = {version!r}\n"}
        make_wheel(wheels, "torchvision", version, files=vision, requires=[f"torch=={torch}"])


def _compiled(wheels: Path, site: Path) -> None:
    bundled = make_shared(site / "libquick-3f2a.so.1", exports=["quick"])
    core = make_shared(
        site / f"_core{SUFFIX}", needed=[bundled], undefined=["quick"], runpath="$ORIGIN/../quicknum.libs",
        source=_MODULE.replace("NAME", "_core"),
    )  # fmt: skip
    files = {
        "quicknum/__init__.py": "from . import _core\n",
        f"quicknum/_core{SUFFIX}": core.read_bytes(),
        "quicknum.libs/libquick-3f2a.so.1": bundled.read_bytes(),
    }
    for version in ("2.0", "1.9"):
        make_wheel(wheels, "quicknum", version, files=files, tag=TAG)
    _extension(wheels, site, "fastattn", {"libc10.so": "c10_error"})
    _extension(wheels, site, "cudaops", {"libcudart.so.12": ""})
    _extension(wheels, site, "oldcuda", {"libcudart.so.11.0": ""})
    _extension(wheels, site, "sysneed", {"libsox.so.3": ""})
    _extension(wheels, site, "oldtag", {}, suffix=".cpython-36m-x86_64-linux-gnu.so", tag="py3-none-any")


def _extension(
    wheels: Path, site: Path, name: str, stubs: dict[str, str], *, suffix: str = SUFFIX, tag: str = TAG
) -> None:
    needed = [make_stub(site, soname, exports=[symbol] if symbol else ()) for soname, symbol in stubs.items()]
    made = make_shared(
        site / f"_ops_{name}{suffix}", soname=None, needed=needed, undefined=[s for s in stubs.values() if s],
        source=_MODULE.replace("NAME", f"_ops_{name}"),
    )  # fmt: skip
    files = {
        f"{name}/__init__.py": f"import torch\nfrom . import _ops_{name}\n",
        f"{name}/{made.name}": made.read_bytes(),
    }
    make_wheel(wheels, name, "1.0", files=files, requires=["torch"], tag=tag)


def _plain(wheels: Path) -> None:
    tool = {"tool/__init__.py": "def main():\n    print('hello')\n"}
    make_wheel(wheels, "tool", "1.0", files=tool, scripts={"tool": "tool:main"})
    make_wheel(wheels, "tool", "1.1", files=tool, scripts={"tool": "tool:main"})
    inner = {
        "plain/__init__.py": "",
        "plain/deep/__init__.py": "",
        "plain/deep/inner.py": "x = 1\n",
        "plain/d.json": "{}",
    }
    make_wheel(wheels, "plain", "3.0", files=inner)
    make_wheel(wheels, "plain", "2.0", files=inner)
    for version in ("0.19.1", "0.22.2", "0.24.0"):
        make_wheel(wheels, "tokenkit", version)
    make_wheel(
        wheels, "textkit", "5.0", files={"textkit/__init__.py": "import tokenkit\n"}, requires=["tokenkit<=0.23,>=0.22"]
    )
    for part in ("data", "viz"):
        make_wheel(wheels, f"spacekit-{part}", "1.0", files={f"spacekit/{part}/__init__.py": f"name = {part!r}\n"})
    for version in ("3.6.0", "3.5.0"):
        make_wheel(wheels, "triton", version, files=_triton(version))
    make_wheel(wheels, "pytorch-triton-rocm", "3.6.0", files=_triton("rocm"))
    for name in ("opencv-python", "opencv-python-headless"):
        make_wheel(
            wheels, name, "4.12.0", files={"cv2/__init__.py": f"flavour = {name!r}\n", "cv2/version.py": f"# {name}"}
        )
    make_wheel(wheels, "wants-gui", "1.0", requires=["opencv-python"])
    make_wheel(wheels, "wants-headless", "1.0", requires=["opencv-python-headless"])
    make_wheel(wheels, "mamba-ssm", "2.2.2", requires=["triton"])
    for name in ("nvidia-ml-py", "nvidia-ml-py3"):
        make_wheel(wheels, name, "12.570", files={"pynvml.py": f"V = {name!r}\n"})
    make_wheel(wheels, "left-shared", "1.0", files={"shared_pkg/__init__.py": "side = 'left'\n", "left_shared.py": ""})
    make_wheel(
        wheels, "right-shared", "1.0", files={"shared_pkg/__init__.py": "side = 'right!'\n", "right_shared.py": ""}
    )


def _triton(version: str) -> dict[str, bytes | str]:
    return {"triton/__init__.py": f"__version__ = {version!r}\n", "triton/compiler/__init__.py": f"key = {version!r}\n"}


def _files(site: Path, below: str) -> dict[str, bytes | str]:
    return {str(path.relative_to(site)): path.read_bytes() for path in (site / below).rglob("*") if path.is_file()}
