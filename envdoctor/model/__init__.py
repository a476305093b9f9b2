"""Frozen facts and rules' results: plain data, no I/O."""
