"""The drafter: Qwen3-style layers over target features, its block mask and its attention."""
