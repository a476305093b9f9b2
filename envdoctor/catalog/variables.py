"""Environment variables that change what is loaded, compiled or seen: one row each. Adding a variable is one row.

Sources: ld.so(8), python(1), torch's and Triton's documentation of variables, CUDA's programming guide, NCCL's user
guide, uv's and pip's settings, torchrun's and Slurm's documentation, FlashInfer's jit/env.py and jit/cpp_ext.py.
"""

from functools import cache
from typing import Literal

from envdoctor.model.frozen import frozen
from envdoctor.model.pattern import pattern
from envdoctor.standards.redaction import holds_secret, secret_name

Scope = Literal["stack", "rank", "machine", "process"]
"""Whose it is: the stack's; the stack's, though each rank of a node has its own; this machine's or user's, who keeps
things where it suits; what a launcher gives each process. Two stacks are compared by the first two; ranks and nodes by
the first, but for those of which each may have its own."""
Kind = Literal["", "folder", "made folder", "file", "file or folder", "program", "command"]
"""What a value names: a folder that must be there, one that is made when it is needed, a file, a program by its path,
a command line whose first word is a program by its path or its name on PATH."""


@frozen
class KnownVariable:
    """One variable, or a family of them."""

    name: str
    """"CUDA_HOME"; of a family its prefix and a star: "NCCL_*"."""
    why: str
    """What it changes, which is why it is collected."""
    scope: Scope = "stack"
    per_rank: bool = False
    """Ranks and nodes of one job may each have their own: numbers of the launch, GPUs and network cards of the host,
    folders of caches and logs, threads."""
    captured: bool = False
    """It changes how a run computes: a captured profile sets it again."""
    kind: Kind = ""
    cost: str = ""
    """What fails when the path is not there."""
    usual: str = ""
    """The value to set instead; empty: it is unset."""
    for_uv: Literal["given", "withheld", "impact", "restore"] = "given"
    """Which uv of ours sees it: the one that fills the scratch copy of `impact install`, and that is to do what the
    user's own would; the one that restores from a lock; both; none, since it means another environment or Python."""
    switches_on: str = ""
    """The distribution without which the switch ends in an error."""
    switched_by: tuple[str, ...] = ("1", "true", "yes", "on")
    """Values, in lower case, that switch it on."""
    reader: str = ""
    """What reads it, where only that does: a distribution and its versions ("huggingface-hub<1"), or CUDA_TORCH."""


CUDA_TORCH = "a CUDA build of torch"
_V = KnownVariable
_NO_COMPILE = "every compilation at run time ends in FileNotFoundError"
_NO_TLS = "every download over HTTPS fails"

VARIABLES: tuple[KnownVariable, ...] = (
    # The loader (ld.so(8)).
    _V(name="LD_LIBRARY_PATH", why="libraries in front of the environment's own"),
    _V(name="LD_PRELOAD", why="libraries in front of everything"),
    _V(name="LD_AUDIT", why="code that watches the loader"),
    _V(name="LD_BIND_NOW", why="resolves every symbol at load time"),
    # Where things are looked for.
    _V(name="PATH", why="programs that are started by name", scope="machine"),
    _V(name="VIRTUAL_ENV", why="the venv that is active", scope="machine", kind="folder", for_uv="withheld",
       cost="PATH leads to no interpreter of the venv, so that another Python starts"),
    _V(name="VIRTUAL_ENV_PROMPT", why="the prompt of the active venv", scope="machine", for_uv="withheld"),
    _V(name="CONDA_PREFIX", why="the conda environment that is active", scope="machine", for_uv="withheld"),
    _V(name="CONDA_DEFAULT_ENV", why="its name", scope="machine", for_uv="withheld"),
    _V(name="XDG_CACHE_HOME", why="the folder of caches", scope="machine"),
    _V(name="TMPDIR", why="temporary files, inductor's cache by default", scope="machine", kind="folder",
       cost="Python takes /tmp without a word, a compiler ends in an error"),
    # Python (python(1)).
    _V(name="PYTHONHOME", why="another standard library", for_uv="withheld"),
    _V(name="PYTHONPATH", why="modules in front of the environment's own", for_uv="withheld"),
    _V(name="PYTHONSTARTUP", why="code that an interactive Python runs first", for_uv="withheld"),
    _V(name="PYTHONUSERBASE", why="another user site", for_uv="withheld"),
    _V(name="PYTHONHASHSEED", why="the order of sets and hashes", captured=True),
    _V(name="PYTHONPYCACHEPREFIX", why="the folder of bytecode", per_rank=True),
    _V(name="PYTHON*", why="how the interpreter starts"),
    _V(name="__PYVENV_LAUNCHER__", why="the interpreter a framework build pretends to be", for_uv="withheld"),
    # CUDA and its driver.
    _V(name="CUDA_HOME", why="the toolkit that extensions are built with",
       kind="folder", cost=_NO_COMPILE, reader=CUDA_TORCH),
    _V(name="CUDA_PATH", why="the same, for torch and CuPy where CUDA_HOME is not set", kind="folder",
       cost=_NO_COMPILE, reader=CUDA_TORCH),
    _V(name="CUDACXX", why="the nvcc that CMake takes",
       kind="command", cost="CMake finds no CUDA compiler", reader=CUDA_TORCH),
    _V(name="PYTORCH_NVCC", why="the nvcc that torch's extensions are built with",
       kind="command", cost=_NO_COMPILE, reader=CUDA_TORCH),
    _V(name="CUDA_VISIBLE_DEVICES", why="the GPUs a process sees", scope="rank"),
    _V(name="NVIDIA_VISIBLE_DEVICES", why="the GPUs a container sees", per_rank=True),
    _V(name="CUDA_DEVICE_ORDER", why="which GPU is number 0", captured=True),
    _V(name="CUDA_CACHE_PATH", why="the driver's own compile cache", per_rank=True),
    _V(name="CUDA_CACHE_DISABLE", why="whether the driver keeps what it compiles"),
    _V(name="CUDA_MODULE_LOADING", why="when kernels are loaded", captured=True),
    # Compilers.
    _V(name="CC", why="the C compiler of Triton's launcher and of extensions",
       kind="command", cost=_NO_COMPILE, reader="torch"),
    _V(name="CXX", why="the C++ compiler of inductor and of extensions",
       kind="command", cost=_NO_COMPILE, reader="torch"),
    _V(name="CUDAHOSTCXX", why="the C++ compiler behind nvcc",
       kind="command", cost="nvcc finds no host compiler", reader=CUDA_TORCH),
    # torch, Triton, FlashInfer.
    _V(name="PYTORCH_CUDA_ALLOC_CONF", why="how GPU memory is taken", captured=True),
    _V(name="PYTORCH_ALLOC_CONF", why="the same, since torch 2.9", captured=True),
    _V(name="PYTORCH_NVML_BASED_CUDA_CHECK", why="whether is_available() asks NVML alone", captured=True),
    _V(name="TORCH_HOME", why="models of torch.hub", scope="machine", kind="made folder", reader="torch"),
    _V(name="TORCHINDUCTOR_CACHE_DIR", why="inductor's cache", captured=True, per_rank=True),
    _V(name="TORCH_EXTENSIONS_DIR", why="torch's compiled extensions", captured=True, per_rank=True),
    *(_V(name=name, why="what torch writes about a run, and where to", captured=True, per_rank=True) for name in (
        "TORCH_LOGS*", "TORCH_TRACE", "TORCH_COMPILE_DEBUG*", "TORCH_CPP_LOG_LEVEL", "TORCH_FR_DUMP_TEMP_FILE",
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
    )),
    _V(name="TORCH_*", why="how torch runs", captured=True),
    _V(name="TORCHINDUCTOR_*", why="how inductor compiles", captured=True),
    _V(name="TORCHDYNAMO_*", why="how dynamo traces", captured=True),
    _V(name="TORCHX_*", why="what TorchX gives each replica", per_rank=True),
    _V(name="TORCH*", why="how torch and its launcher run"),
    _V(name="PYTORCH_*", why="how torch runs", captured=True),
    _V(name="TRITON_PTXAS_PATH", why="the assembler of Triton's kernels", captured=True, kind="program",
       cost="no Triton kernel can be compiled", reader="triton"),
    _V(name="TRITON_PTXAS_BLACKWELL_PATH", why="the same, for Blackwell", captured=True, kind="program",
       cost="no Triton kernel can be compiled", reader="triton"),
    _V(name="TRITON_LIBCUDA_PATH", why="the folder of the libcuda.so.1 that Triton's launcher is linked with",
       captured=True, kind="folder", cost="no Triton kernel can be launched", reader="triton"),
    _V(name="TRITON_CACHE_DIR", why="Triton's cache", captured=True, per_rank=True),
    _V(name="TRITON_HOME", why="the folder of Triton's cache", captured=True, per_rank=True),
    _V(name="TRITON_DUMP_DIR", why="the folder of what Triton writes about its kernels", captured=True, per_rank=True),
    _V(name="TRITON_*", why="how Triton compiles", captured=True),
    _V(name="FLASHINFER_WORKSPACE_BASE", why="FlashInfer's compiled kernels", scope="machine"),
    _V(name="FLASHINFER_CACHE_DIR", why="FlashInfer's kernels", scope="machine"),
    _V(name="FLASHINFER_NINJA_PATH", why="the ninja that FlashInfer starts", kind="command",
       cost="FlashInfer cannot compile a kernel", reader="flashinfer-python"),
    _V(name="FLASHINFER_NVCC", why="the nvcc that FlashInfer starts", kind="command",
       cost="FlashInfer cannot compile a kernel", reader="flashinfer-python"),
    _V(name="TEMPORARILY_DISABLE_PROTOBUF_VERSION_CHECK", why="whether protobuf compares generated code with itself"),
    _V(name="FLASHINFER_DISABLE_VERSION_CHECK", why="whether FlashInfer compares its parts"),
    # Numbers of threads.
    _V(name="OMP_NUM_THREADS", why="threads of a CPU kernel, a part of inductor's key", captured=True,
       per_rank=True),
    _V(name="TOKENIZERS_PARALLELISM", why="threads of the tokenizer", captured=True),
    # Communication and launchers.
    _V(name="NCCL_TOPO_FILE", why="the topology NCCL is given", captured=True, per_rank=True, kind="file",
       cost="NCCL goes on with the topology it detects", reader=CUDA_TORCH),
    _V(name="NCCL_DEBUG*", why="what NCCL writes about a run, and where to", captured=True, per_rank=True),
    _V(name="NCCL_SOCKET_IFNAME", why="the network card of a host", captured=True, per_rank=True),
    _V(name="NCCL_IB_HCA", why="the InfiniBand cards of a host", captured=True, per_rank=True),
    _V(name="NCCL_*", why="how ranks talk to each other", captured=True),
    _V(name="WORLD_SIZE", why="ranks of the job", per_rank=True),
    _V(name="LOCAL_WORLD_SIZE", why="ranks of this node", per_rank=True),
    _V(name="NNODES", why="nodes of the job", per_rank=True),
    _V(name="SLURM_JOB_NUM_NODES", why="nodes of the job", per_rank=True),
    _V(name="SLURM_NNODES", why="nodes of the job", per_rank=True),
    _V(name="RANK", why="this rank", scope="process"),
    _V(name="LOCAL_RANK", why="this rank on its node", scope="process"),
    _V(name="GROUP_RANK", why="this node of the job", scope="process"),
    _V(name="GROUP_WORLD_SIZE", why="nodes of the job, as torchrun counts them", scope="process"),
    _V(name="SLURM_JOB_ID", why="this job", scope="process"),
    # Downloads.
    _V(name="HF_HOME", why="models and datasets of the Hugging Face hub", scope="machine",
       kind="made folder", cost="nothing can be downloaded", reader="huggingface-hub"),
    _V(name="HF_HUB_CACHE", why="models of the hub", scope="machine",
       kind="made folder", cost="nothing can be downloaded", reader="huggingface-hub"),
    _V(name="HF_DATASETS_CACHE", why="prepared datasets", scope="machine",
       kind="made folder", cost="no dataset can be prepared", reader="datasets"),
    _V(name="HF_HUB_ENABLE_HF_TRANSFER", why="downloads through hf_transfer", switches_on="hf-transfer",
       reader="huggingface-hub<1"),
    _V(name="HF_HUB_OFFLINE", why="no downloads from the hub"),
    _V(name="ACCELERATE_USE_DEEPSPEED", why="accelerate trains through DeepSpeed", switches_on="deepspeed",
       reader="accelerate"),
    _V(name="SSL_CERT_FILE", why="the certificates that TLS trusts", scope="machine", kind="file", cost=_NO_TLS),
    _V(name="REQUESTS_CA_BUNDLE", why="the same, for requests", scope="machine", kind="file or folder", cost=_NO_TLS),
    _V(name="CURL_CA_BUNDLE", why="the same, for requests and curl", scope="machine", kind="file or folder",
       cost=_NO_TLS),
    # uv: where wheels come from and how they are reached. A login of a named index has a name of its own.
    *(_V(name=name, why="where uv's wheels come from and how they are reached", scope="machine") for name in (
        "UV_AZURE_ENDPOINT_URL", "UV_CACHE_DIR", "UV_CONCURRENT_BUILDS", "UV_CONCURRENT_DOWNLOADS",
        "UV_CONCURRENT_INSTALLS", "UV_CREDENTIALS_DIR", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS",
        "UV_GCS_ENDPOINT_URL", "UV_HTTP_CONNECT_TIMEOUT", "UV_HTTP_RETRIES", "UV_HTTP_TIMEOUT", "UV_INDEX",
        "UV_INDEX_URL", "UV_INSECURE_HOST", "UV_KEYRING_PROVIDER", "UV_LINK_MODE", "UV_LOCK_TIMEOUT", "UV_NATIVE_TLS",
        "UV_NO_HF_TOKEN", "UV_NO_INDEX", "UV_OFFLINE", "UV_PYTHON_INSTALL_DIR", "UV_REQUEST_TIMEOUT",
        "UV_S3_ENDPOINT_URL", "UV_STACK_SIZE", "UV_SYSTEM_CERTS",
    )),
    _V(name="UV_NO_CACHE", why="uv keeps nothing, so that links into its cache lead nowhere", scope="machine",
       for_uv="restore"),
    # uv: what loosens a lock or changes what is built.
    _V(name="UV_TORCH_BACKEND", why="which build of torch uv takes", scope="machine", for_uv="impact"),
    _V(name="UV_CONSTRAINT", why="versions that uv is held to", scope="machine", for_uv="impact"),
    _V(name="UV_OVERRIDE", why="requirements that uv replaces", scope="machine", for_uv="impact"),
    # uv: another environment, or its Python.
    *(_V(name=name, why="another environment, or its Python", scope="machine", for_uv="withheld") for name in (
        "UV_PROJECT", "UV_PROJECT_ENVIRONMENT", "UV_PYTHON", "UV_SYSTEM_PYTHON", "UV_WORKING_DIR",
        "UV_WORKING_DIRECTORY",
    )),
    # pip: where it installs to, and what it leaves out.
    *(_V(name=name, why="where pip installs to, or what it leaves out", scope="machine") for name in (
        "PIP_CONSTRAINT", "PIP_NO_DEPS", "PIP_PREFIX", "PIP_REQUIRE_VIRTUALENV", "PIP_TARGET", "PIP_USER",
    )),
    # This program's own.
    _V(name="ENVDOCTOR_*", why="how envdoctor behaves", scope="machine"),
    _V(name="FORCE_COLOR", why="colour where nobody reads it", scope="machine", for_uv="withheld"),
)  # fmt: skip
_EXACT = {row.name: row for row in VARIABLES if not row.name.endswith("*")}
_FAMILIES = tuple(row for row in VARIABLES if row.name.endswith("*"))
_PREFIXES = tuple(row.name.removesuffix("*") for row in _FAMILIES)
_LOADS_CODE = frozenset(
    ("PATH", "GCONV_PATH", "GLIBC_TUNABLES", "BASH_ENV", "ENV", "SHELLOPTS", "IFS", "PYTHONPATH", "PYTHONHOME",
     "PYTHONSTARTUP", "PYTHONUSERBASE", "PYTHONINSPECT", "PYTHONBREAKPOINT", "PYTHONPLATLIBDIR", "PYTHONEXECUTABLE",
     "PYTHONPYCACHEPREFIX", "PYTHONWARNINGS", "PYTHONCASEOK", "__PYVENV_LAUNCHER__")
)  # fmt: skip
_LOGIN_OF_INDEX = pattern(r"UV_INDEX_.+_(USERNAME|PASSWORD)")
_LOGIN_IN_VALUE = pattern(r":[^\s/@:]*@|://")


@cache
def known(name: str) -> KnownVariable | None:
    """Return the row of a variable: its own, else that of the first family its name begins with; None for another."""
    if row := _EXACT.get(name):
        return row
    at = next((at for at, prefix in enumerate(_PREFIXES) if name.startswith(prefix)), None)
    return None if at is None else _FAMILIES[at]


def collected(name: str) -> bool:
    """Tell whether a variable is one that the environment's facts keep when it is set."""
    return name in _EXACT or name.startswith(_PREFIXES)


def may_be_secret(name: str, value: str) -> bool:
    """Tell whether a value must not be kept: by a word of the name, or a login, an address or a token in the value."""
    return secret_name(name) or bool(_LOGIN_IN_VALUE.search(value)) or holds_secret(value)


def loads_code(name: str) -> bool:
    """Tell whether a variable makes programs load code that they would not load without it: ld.so(8), python(1), sh(1).

    Of CUDA's and torch's own, which a stack needs, none does so on the way to its start.
    """
    return name in _LOADS_CODE or name.startswith("LD_")


def given_to_uv(name: str, *, impact: bool = False) -> bool:
    """Tell whether a uv of ours sees a variable; `impact`: the one that tries an install as the user's own would.

    A setting of uv that has no row loosens the lock, changes what is built, or is of a later uv: restore goes without.
    """
    if row := _EXACT.get(name):
        return row.for_uv in ("given", "impact" if impact else "restore")
    return impact or not name.startswith("UV_") or bool(_LOGIN_OF_INDEX.fullmatch(name))
