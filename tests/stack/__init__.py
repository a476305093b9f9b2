"""Real multi-gigabyte stacks: run with `make test-stack`."""
