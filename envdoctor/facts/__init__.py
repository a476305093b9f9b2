"""What every probe uses: the host, the target, the reading, regular files, memos."""
