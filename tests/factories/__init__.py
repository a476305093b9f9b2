"""Makers of real wheels, venvs, ELF objects, indexes and verdicts for the tests: plain typed functions."""
