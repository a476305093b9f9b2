"""torch's compile state, and compiled code for one thread alone."""
