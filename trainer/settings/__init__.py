"""What a run is told: the keys and their sections, presets, the command line; no torch here."""
