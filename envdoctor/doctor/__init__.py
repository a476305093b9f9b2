"""Examines one environment: takes the facts, runs the checks, writes the heading."""
