"""Building, verifying and swapping stacks."""
