"""Probes read a venv from outside and write facts; only `live` runs the target's code, and only when asked."""
