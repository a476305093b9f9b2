"""The launch gate for other environments: as a wheel that a lock can list, and as one self-contained file."""
