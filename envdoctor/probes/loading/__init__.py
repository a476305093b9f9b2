"""Probes of what would be loaded: libraries, symbols, the torch build."""
