"""What is published: the artifacts, and the tool as people install it."""
