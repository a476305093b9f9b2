"""What the checks and the plans share: the check context, file conflicts, damage, unmet requirements, remedies."""
