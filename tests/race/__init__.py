"""The compile race and the gate against it."""
