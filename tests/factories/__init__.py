"""Plain typed functions that build what tests need."""
