"""Who runs which step where and when: the gate, the channels, the runtimes."""
