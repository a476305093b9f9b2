"""Probes of the machine: variables, driver, GPUs, toolchain, mounts."""
