"""Rendering of results."""
