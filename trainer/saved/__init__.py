"""What stays of a run on disk: checkpoints, their ancestry, the export, what produced them."""
