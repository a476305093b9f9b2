"""Data of the field, one table a file: CUDA libraries, shared paths, companion versions, symbol families."""
