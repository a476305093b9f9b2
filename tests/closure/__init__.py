"""The law of closure: the commands that a check prints heal what it found, and nothing else breaks."""
