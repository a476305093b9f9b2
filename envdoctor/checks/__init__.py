"""Pure rules: facts and a profile in, findings out. One rule a file."""
