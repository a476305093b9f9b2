"""envdoctor sees the truth of a training venv from outside, and rebuilds the known-good stack."""

__all__ = ["__version__"]
__version__ = "0.1.0"
