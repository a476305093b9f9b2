"""Probes of the venv: interpreter, distributions, RECORDs, files."""
