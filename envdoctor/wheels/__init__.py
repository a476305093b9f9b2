"""Where wheels come from: indexes, wheelhouses, pip's and uv's configuration, uv itself."""
