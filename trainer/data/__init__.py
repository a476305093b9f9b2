"""Conversations to fixed-shape batches, in an order that only the seed decides."""
