"""Broken environments as reported, each rebuilt, diagnosed, mended by the command given, and examined again."""
