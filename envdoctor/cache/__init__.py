"""Compile caches as named, guarded artifacts."""
