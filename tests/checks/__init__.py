"""One passing and one failing state for every code."""
