"""One stack on every node: the tool travels over an engine that is there, and what nodes answer is compared."""
