"""A change on many nodes: each says what it would do, and then does that and nothing else, a few nodes at a time."""
