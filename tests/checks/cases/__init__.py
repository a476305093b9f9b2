"""Broken environments as they were reported, each rebuilt, diagnosed, mended by the command given, and examined again."""
