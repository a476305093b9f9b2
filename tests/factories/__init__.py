"""Makers of real wheels, venvs and indexes for the tests: plain typed functions."""
