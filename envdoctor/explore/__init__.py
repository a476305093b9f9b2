"""Questions about one environment: why something is as it is, and what a change would do to it."""
