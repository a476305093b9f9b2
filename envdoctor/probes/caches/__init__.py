"""Probes of compile caches."""
