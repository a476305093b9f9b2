"""Locks of other tools, read as PEP 751 documents: uv, Poetry, PDM, conda-lock, requirements, pylock."""
