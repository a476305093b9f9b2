"""A launch watched while it runs: GPU memory and throughput beside what the profile expects."""
