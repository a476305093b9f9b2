"""What a run says: metrics, progress, the summary, curves, trackers."""
