"""A DFlash trainer: N target workers feed M drafters."""
