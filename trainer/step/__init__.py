"""What a step computes: the loss, what a position counts, AdamW, and the operations that MFU counts."""
