"""Documents on disk: profiles, fingerprints."""
