"""Environment variables that change what is loaded, compiled or seen."""

from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen

# Exact names; a family is a prefix. Sources: ld.so(8), python(1), torch's and triton's env documentation, CUDA's
# programming guide (environment variables), NCCL's user guide.
NAMES = (
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "LD_AUDIT",
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CUDA_CACHE_PATH",
    "CUDA_CACHE_DISABLE",
    "CUDA_MODULE_LOADING",
    "XDG_CACHE_HOME",
    "TMPDIR",
    "CC",
    "CXX",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_NVML_BASED_CUDA_CHECK",
    "OMP_NUM_THREADS",
    "WORLD_SIZE",
    "RANK",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "GROUP_WORLD_SIZE",
    "NNODES",
    "SLURM_JOB_ID",
    "SLURM_JOB_NUM_NODES",
    "SLURM_NNODES",
    "FLASHINFER_WORKSPACE_BASE",
    "FLASHINFER_CACHE_DIR",
    "FLASHINFER_DISABLE_VERSION_CHECK",
    "TOKENIZERS_PARALLELISM",
    "HF_HOME",
)
PREFIXES = ("PYTHON", "TORCH", "TRITON_", "NCCL_", "ENVDOCTOR_", "UV_", "PIP_")


@frozen
class Variable:
    """One variable that is set."""

    name: str
    value: str


@frozen
class Environment:
    """The variables that matter and are set, by name."""

    variables: tuple[Variable, ...]

    def value(self, name: str) -> str | None:
        """Return a variable's value, or None when it is not set."""
        return next((variable.value for variable in self.variables if variable.name == name), None)


def probe(reading: Reading) -> Environment:
    """Take the known names and families from the host's environment; an index URL's credentials are left out."""
    chosen = sorted(
        (name, value)
        for name, value in reading.host.environ.items()
        if (name in NAMES or name.startswith(PREFIXES)) and "://" not in value and "TOKEN" not in name
    )
    return Environment(variables=tuple(Variable(name=name, value=value) for name, value in chosen))
