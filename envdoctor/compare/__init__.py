"""Two or more stacks beside each other: the comparable view, the digest, the differences."""
