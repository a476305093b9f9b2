"""Text from the target, with a drafter and without one."""
