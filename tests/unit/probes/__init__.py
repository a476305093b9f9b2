"""Probes over real venvs and files."""
