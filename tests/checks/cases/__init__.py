"""Broken environments as reported, each rebuilt, diagnosed, fixed by the command given, and examined again."""
