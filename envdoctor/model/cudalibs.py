"""CUDA libraries and their owners (the full catalogue replaces this file)."""


def owner_major(name: str, version: str) -> str | None:  # noqa: ARG001
    """Return the CUDA major a distribution belongs to."""
    return next((major for major in ("11", "12", "13") if name.endswith(f"-cu{major}")), None)


def expected_owner(soname: str, cuda_major: str) -> str | None:  # noqa: ARG001
    """Return the distribution that should provide a soname."""
    return None
