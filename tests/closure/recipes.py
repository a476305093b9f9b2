"""Failures that were reported in public, each rebuilt from wheels of its own on the healthy stack."""

import textwrap
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path

from tests.closure.scene import Scene
from tests.factories.make_cuda import object_bytes
from tests.factories.make_elf import make_shared
from tests.factories.make_wheel import record_hash

_OPEN = "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), {name!r}))\n"


def providers_not_asked_for(scene: Scene) -> None:
    """BR04: the library is in the venv, and no search path of the extension leads to it."""
    content = object_bytes("libfvquery.so.13", exports=["fv"])
    scene.add("nvidia-fvquery", "13.0", files={"nvidia/cu13/lib/libfvquery.so.13": content})
    code = object_bytes("_fvdb.so", stubs={"libfvquery.so.13": ("fv",)}, runpath="$ORIGIN")
    scene.add(
        "fvdb-core", "0.5", "fvdb", files={"fvdb/_fvdb.so": code, "fvdb/__init__.py": _OPEN.format(name="_fvdb.so")}
    )


def extension_of_another_cuda(scene: Scene) -> None:
    """BR08: an inference engine built for CUDA 13 beside a CUDA 12 torch, with CUDA 13's library in the venv."""
    content = object_bytes("libcublasLt.so.13")
    scene.add("nvidia-cublas", "13.0", files={"nvidia/cu13/lib/libcublasLt.so.13": content})
    code = object_bytes(
        "_C.abi3.so", soname="_C.abi3.so", stubs={"libcublasLt.so.13": ()}, runpath="$ORIGIN/../torch/lib"
    )
    scene.add(
        "vllm", "0.22.0", "vllm", files={"vllm/_C.abi3.so": code, "vllm/__init__.py": _OPEN.format(name="_C.abi3.so")},
        requires=["torch==2.10.0"],
    )  # fmt: skip


def old_abi(scene: Scene) -> None:
    """BR18: an extension that asks torch for a symbol it does not have any more."""
    code = object_bytes("flash.so", soname=None, stubs={"libc10.so": ("_ZN3c105ErrorC2ENS_14SourceLocationESs",)})
    files = {"flash_attn/flash.so": code, "flash_attn/__init__.py": "import torch\n" + _OPEN.format(name="flash.so")}
    scene.add("flash-attn", "2.7.4", "flash_attn", files=files, requires=["torch"])


def accelerate_too_old(scene: Scene) -> None:
    """BR23: the minimum is in an extra that nobody asks for."""
    lines = ["Provides-Extra: torch"]
    files = {"transformers/__init__.py": "", "transformers/utils/import_utils.py": "ACCELERATE_MIN_VERSION = '1.1.0'\n"}
    scene.add(
        "transformers", "5.8.1", files=files, requires=['accelerate>=1.1.0; extra == "torch"'], metadata_lines=lines
    )
    scene.add("accelerate", "1.12.0")
    scene.add("accelerate", "0.10.0")


def _pem(content: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{b64encode(content.encode()).decode()}\n-----END CERTIFICATE-----\n"


def _authority(scene: Scene) -> None:
    files = {"certifi/__init__.py": "", "certifi/core.py": "x = 1\n", "certifi/cacert.pem": _pem("published")}
    scene.add("certifi", "2026.1", "certifi.core", files=files)
    bundle = scene.site / "certifi/cacert.pem"
    # In place, and so in uv's cache too, as `cat our-ca.pem >> cacert.pem` does it.
    with bundle.open("a") as stream:
        stream.write(_pem("our own authority"))
    scene.own["cacert.pem"] = _pem("our own authority")


def authority_appended(scene: Scene) -> None:
    """CA: an operator's authority in certifi's bundle, and another distribution that is damaged."""
    _authority(scene)
    (scene.site / "plain/deep/inner.py").unlink()


def authority_in_a_damaged_bundle(scene: Scene) -> None:
    """CA: an operator's authority in a certifi of which another file is gone."""
    _authority(scene)
    (scene.site / "certifi/core.py").unlink()


def three_pynvml(scene: Scene) -> None:
    """BR25: three distributions own one module, one patches the import of it."""
    scene.install("nvidia-ml-py")
    scene.install("nvidia-ml-py3")
    hook = (
        "import sys\nclass F:\n    def find_spec(self, n, p=None, t=None): return None\nsys.meta_path.insert(0, F())\n"
    )
    files = {"_pynvml_redirector.py": hook, "_pynvml_redirector.pth": "import _pynvml_redirector\n"}
    scene.add("pynvml", "13.0.1", "pynvml", files=files, requires=["nvidia-ml-py"])


def pynvml_taken(scene: Scene) -> None:
    """BR25: the fork was uninstalled and took the module with it."""
    scene.install("nvidia-ml-py")
    scene.install("nvidia-ml-py3")
    scene.uninstall("nvidia-ml-py3")
    scene.modules.append("pynvml")


def launcher_in_front(scene: Scene) -> None:
    """BR29: another Python's torchrun stands on PATH before the venv's."""
    folder = scene.root / "home/.local/bin"
    folder.mkdir(parents=True)
    (folder / "torchrun").write_text("#!/usr/bin/python3\n")
    (folder / "torchrun").chmod(0o755)
    scene.environment["PATH"] = f"{folder}:{scene.venv.prefix}/bin:{scene.environment['PATH']}"
    scene.environment["VIRTUAL_ENV"] = str(scene.venv.prefix)


def system_library(scene: Scene) -> None:
    """N01: the package opens its own module, which needs a library of the system."""
    code = object_bytes("ops.abi3.so", soname=None, stubs={"libsox.so.3": ("rdma_x",)})
    scene.add(
        "sgl-kernel", "0.3.21", "sgl_kernel",
        files={"sgl_kernel/ops.abi3.so": code, "sgl_kernel/__init__.py": _OPEN.format(name="ops.abi3.so")},
    )  # fmt: skip


def no_alternative_fits(scene: Scene) -> None:
    """N02b: one build for each FFmpeg, and there is none."""
    text = """
        import ctypes, os, torch
        errors = []
        for version in (8, 7, 6):
            try:
                ctypes.CDLL(os.path.join(os.path.dirname(__file__), f"libtorchcodec_core{version}.so"))
                break
            except OSError as error:
                errors.append(str(error))
        else:
            raise RuntimeError("Could not load libtorchcodec. " + "; ".join(errors))
        """
    files: dict[str, bytes | str] = {
        f"torchcodec/libtorchcodec_core{v}.so": object_bytes(
            f"libtorchcodec_core{v}.so", stubs={"libc10.so": (), f"libavutil.so.{v + 52}": ("av_x",)}
        )
        for v in (6, 7, 8)
    }
    scene.add("torchcodec", "0.11.1", "torchcodec", files={**files, "torchcodec/__init__.py": textwrap.dedent(text)})


def extra_of_its_own_family(scene: Scene) -> None:
    """N03b: companions pinned by an extra that the user typed."""
    text = (
        "import importlib.metadata as m\n"
        "a, b = m.version('transformer-engine'), m.version('transformer-engine-torch')\n"
        "assert a == b, f'TransformerEngine package version mismatch: {a} {b}'\n"
    )
    files = {"transformer_engine/__init__.py": text, "transformer_engine/common/__init__.py": ""}
    make = 'transformer-engine-torch==2.9.0; extra == "pytorch"'
    scene.add("transformer-engine-torch", "2.9.0")
    scene.add("transformer-engine-torch", "2.7.0")
    scene.add(
        "transformer-engine", "2.9.0", "transformer_engine", files=files,
        requires=[make], metadata_lines=["Provides-Extra: pytorch"],
    )  # fmt: skip


def dropped_module(scene: Scene) -> None:
    """N04: setuptools 82 has no pkg_resources any more."""
    scene.add("setuptools", "81.0", files={"setuptools/__init__.py": "", "pkg_resources/__init__.py": ""})
    scene.add("setuptools", "82.0.1", files={"setuptools/__init__.py": ""})
    files = {"tensorboard/__init__.py": "", "tensorboard/default.py": "import logging\nimport pkg_resources\n"}
    scene.add("tensorboard", "2.20.0", "tensorboard.default", files=files, requires=["setuptools>=41.0.0"])


def generated_code(scene: Scene) -> None:
    """N05: generated code newer than its runtime."""
    runtime = (
        "class Domain: PUBLIC = 1\nclass VersionError(Exception): pass\n"
        "def ValidateProtobufRuntimeVersion(d, a, b, c, s, w):\n"
        "    if {version} < (a, b, c): raise VersionError(f'gencode {{a}}.{{b}}.{{c}} runtime {version} for {{w}}')\n"
    )
    for version in ((6, 33, 0), (6, 32, 0)):
        text = ".".join(map(str, version))
        files = {
            "google/protobuf/__init__.py": f"__version__ = {text!r}\n",
            "google/protobuf/runtime_version.py": runtime.format(version=version),
        }
        scene.add("protobuf", text, files=files)
    made = (
        "from google.protobuf import runtime_version as _runtime_version\n"
        "_runtime_version.ValidateProtobufRuntimeVersion(\n    _runtime_version.Domain.PUBLIC,\n"
        "    6,\n    32,\n    1,\n    '',\n    'wandb/proto/wandb_settings.proto'\n)\n"
    )
    files = {"wandb/__init__.py": "from wandb.proto import wandb_settings_pb2\n", "wandb/proto/__init__.py": ""}
    files |= {"wandb/proto/wandb_settings_pb2.py": made}
    scene.add("wandb", "0.26.0", "wandb", files=files, requires=["protobuf!=4.21.0,<8,>=5.28.0"])


def program_not_on_path(scene: Scene) -> None:
    """N06: ninja is in the venv, and PATH does not lead there."""
    scene.add("ninja", "1.13.0", scripts={"ninja": "ninja:main"})
    scene.add("flashinfer-python", "0.6.4", files={"flashinfer/__init__.py": ""}, requires=["ninja"])


def activate_of_another_place(scene: Scene) -> None:
    """N07: a moved venv whose only stale part is its activate script."""
    (scene.venv.prefix / "bin/tool").unlink()
    for path in (scene.venv.prefix / "bin").glob("activate*"):
        text = path.read_text().replace(str(scene.venv.prefix), str(scene.root / "before"))
        path.unlink()
        path.write_text(text)


def pin_enforced_at_import(scene: Scene) -> None:
    """N08: pydantic compares its core's version when it is imported."""
    for version in ("2.41.5", "2.41.4"):
        scene.add("pydantic-core", version)
    text = (
        "import pydantic_core as c\nfrom .version import _COMPATIBLE_PYDANTIC_CORE_VERSION as w\n"
        "if c.__version__ != w: raise SystemError(f'pydantic-core {c.__version__} is incompatible with pydantic')\n"
    )
    files = {"pydantic/version.py": '_COMPATIBLE_PYDANTIC_CORE_VERSION = "2.41.5"\n', "pydantic/__init__.py": text}
    scene.add("pydantic", "2.12.5", "pydantic", files=files, requires=["pydantic-core==2.41.5"])


def switched_on_and_absent(scene: Scene) -> None:
    """N09: a variable switches on a package that is not installed."""
    text = (
        "import os\nif os.environ.get('HF_HUB_ENABLE_HF_TRANSFER') == '1':\n    try: import hf_transfer\n"
        "    except ImportError: raise ValueError('hf_transfer is not available')\n"
    )
    scene.add("huggingface-hub", "0.35.3", "huggingface_hub", files={"huggingface_hub/__init__.py": text})
    scene.environment["HF_HUB_ENABLE_HF_TRANSFER"] = "1"


_BACKEND = """
import os, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    info = "libero-0.1.0.dist-info/"
    files = {
        "libero.pth": os.getcwd() + "\\n",
        info + "METADATA": "Metadata-Version: 2.1\\nName: libero\\nVersion: 0.1.0\\n",
        info + "WHEEL": "Wheel-Version: 1.0\\nGenerator: own\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files[info + "RECORD"] = "".join(name + ",,\\n" for name in [*files, info + "RECORD"])
    with zipfile.ZipFile(os.path.join(folder, "libero-0.1.0-py3-none-any.whl"), "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return "libero-0.1.0-py3-none-any.whl"
"""
_PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "libero"
version = "0.1.0"
"""


def editable_exposes_nothing(scene: Scene) -> None:
    """N10: the finder of an editable install maps no module."""
    finder = "import sys\nMAPPING: dict[str, str] = {}\nNAMESPACES: dict[str, list[str]] = {}\ndef install(): pass\n"
    source = scene.root / "mine" / "libero"
    (source / "libero").mkdir(parents=True)
    (source / "libero/__init__.py").write_text("")
    (source / "backend.py").write_text(_BACKEND)
    (source / "pyproject.toml").write_text(_PROJECT)
    info = scene.site / "libero-0.1.0.dist-info"
    info.mkdir()
    rows = {
        "__editable___libero_0_1_0_finder.py": finder,
        "__editable__.libero-0.1.0.pth": "import __editable___libero_0_1_0_finder as f; f.install()\n",
        f"{info.name}/METADATA": "Metadata-Version: 2.1\nName: libero\nVersion: 0.1.0\n",
        f"{info.name}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info.name}/INSTALLER": "uv",
        f"{info.name}/direct_url.json": f'{{"dir_info": {{"editable": true}}, "url": "file://{source}"}}',
    }
    _write(scene.site, info, rows)
    scene.modules.append("libero")


def egg_link_to_nowhere(scene: Scene) -> None:
    """N10c: an old development install whose folder is gone."""
    (scene.site / "easy-install.pth").write_text(f"{scene.root}/mine/gone\n")
    (scene.site / "megatron-core.egg-link").write_text(f"{scene.root}/mine/gone\n")


def two_that_must_stay(scene: Scene) -> None:
    """S01: both owners of a path are required; the meant one must be written last."""
    for major, symbol in (("13", "x13"), ("12", "x12")):
        code = object_bytes("nixl_ep.so", exports=[symbol], soname=None)
        files = {"nixl_ep/__init__.py": "", "nixl_ep/nixl_ep.so": code}
        scene.add(f"nixl-cu{major}", "1.2.0", files=files)
    scene.install("--reinstall-package", "nixl-cu13", "nixl-cu13")
    scene.add("nixl", "1.2.0", files={"nixl/__init__.py": ""}, requires=["nixl-cu12", "nixl-cu13"])


def cuda_extension_beside_cpu_torch(scene: Scene) -> None:
    """S04: xformers needs libraries that only torch's CUDA builds have."""
    scene.offer_cpu_torch()
    scene.install("torch==2.10.0+cpu")
    code = object_bytes("_C.so", soname="_C.so", stubs={"libtorch_cuda.so": (), "libc10_cuda.so": ()})
    files = {"xformers/_C.so": code, "xformers/__init__.py": "import torch\n" + _OPEN.format(name="_C.so")}
    scene.add("xformers", "0.0.24", "xformers", files=files, requires=["torch==2.10.0"])


def name_that_is_not_there(scene: Scene) -> None:
    """S05: peft imports a name that this accelerate does not define."""
    files = {"accelerate/__init__.py": "", "accelerate/utils/__init__.py": ""}
    there = "def release_memory(*a): return a\ndef clear_device_cache(): pass\n"
    scene.add("accelerate", "1.2.0", files={**files, "accelerate/utils/memory.py": there})
    scene.add(
        "accelerate", "0.31.0", files={**files, "accelerate/utils/memory.py": "def release_memory(*a): return a\n"}
    )
    text = "from accelerate.utils.memory import clear_device_cache\n"
    scene.add("peft", "0.15.0", "peft", files={"peft/__init__.py": text}, requires=["accelerate>=0.21.0"])


def linked_cache_edited(scene: Scene) -> None:
    """Edit a file in place: uv's cache holds the same inode."""
    scene.add("edited", "1.0", "edited", files={"edited/__init__.py": "x = 1\n"})
    with (scene.site / "edited/__init__.py").open("a") as file:
        file.write("raise ImportError('edited in place')\n")


def folder_in_front(scene: Scene) -> None:
    """BR11: cuDNN's engine comes from another cuDNN on LD_LIBRARY_PATH."""
    make_shared(scene.root / "mine/sys/libcudnn_engines_tensor_ir.so.9", exports=["engine"])
    scene.environment["LD_LIBRARY_PATH"] = str(scene.root / "mine/sys")


def compiled_files_lost(scene: Scene) -> None:
    """Lose what a sync of text files alone leaves out: every compiled file of every distribution."""
    for path in [path for path in scene.site.rglob("*.so*") if path.is_file()]:
        path.unlink()


def _write(site: Path, info: Path, rows: dict[str, str]) -> None:
    for path, text in rows.items():
        (site / path).write_text(text)
    lines = [f"{path},{record_hash(text.encode())},{len(text)}" for path, text in rows.items()]
    (info / "RECORD").write_text("\n".join([*lines, f"{info.name}/RECORD,,"]) + "\n")


RECIPES: dict[str, Callable[[Scene], None]] = {
    f"recipe:{function.__name__.replace('_', '-')}": function
    for function in (
        providers_not_asked_for, extension_of_another_cuda, old_abi, accelerate_too_old, three_pynvml, pynvml_taken,
        launcher_in_front, authority_appended, authority_in_a_damaged_bundle,
        system_library, no_alternative_fits, extra_of_its_own_family, dropped_module, generated_code,
        program_not_on_path, activate_of_another_place, pin_enforced_at_import, switched_on_and_absent,
        editable_exposes_nothing, egg_link_to_nowhere, two_that_must_stay, cuda_extension_beside_cpu_torch,
        name_that_is_not_there, linked_cache_edited, folder_in_front, compiled_files_lost,
    )
}  # fmt: skip
