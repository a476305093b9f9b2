"""Replaces a venv in one step and keeps the old one: store, journal, exchange, generations."""
