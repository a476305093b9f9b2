"""A working venv becomes a profile and a hashed lock."""
