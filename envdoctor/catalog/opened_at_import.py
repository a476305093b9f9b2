"""Distributions whose import opens NVIDIA's libraries by name and raises where one is not found, as data.

Metadata asks for none of them: they came with torch, until torch 2.15 required cuRAND no longer.
"""

from envdoctor.model.frozen import frozen


@frozen
class Opener:
    """The file of a distribution that opens libraries when it is imported."""

    file: str
    """Below site-packages."""
    call: str
    """The function that it calls with the library's short name ("curand"), and that raises where it is not found."""
    message: str
    """What is raised, with {name} for the library."""


# transformer_engine/common/__init__.py of 2.20.2: `_load_cuda_library`, which looks in the CUDA toolkit (CUDA_HOME,
# CUDA_PATH, NAME_HOME, NAME_PATH, /usr/local/cuda), then asks the loader, then looks in the wheels' folders.
_TRANSFORMER_ENGINE = Opener(
    file="transformer_engine/common/__init__.py",
    call="_load_cuda_library",
    message="RuntimeError: {name} shared object not found.",
)
OPENERS: dict[str, Opener] = {
    "transformer-engine-cu12": _TRANSFORMER_ENGINE,
    "transformer-engine-cu13": _TRANSFORMER_ENGINE,
}
"""Distribution -> its opener."""
