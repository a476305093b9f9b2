"""The oldest driver that starts programs of each CUDA major."""

# Oldest Linux driver of each CUDA major: CUDA Toolkit release notes, minor-version compatibility table.
MINIMUM_DRIVER = {"11": "450.80.02", "12": "525.60.13", "13": "580.65.06"}
