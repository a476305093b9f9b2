"""glibc's loader and the import of torch, simulated."""
