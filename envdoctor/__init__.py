"""envdoctor diagnoses PyTorch/CUDA environments without importing them, and rebuilds a locked stack."""

__all__ = ["__version__"]
__version__ = "0.2.0"
