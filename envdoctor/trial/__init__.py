"""A command tried in copies of a venv: which change broke it (bisect), and what an install would do (try)."""
