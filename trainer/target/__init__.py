"""The frozen target: its files, its weights, its forward, and the ways to hold it."""
