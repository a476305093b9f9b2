"""Comparing and reaching several nodes."""
