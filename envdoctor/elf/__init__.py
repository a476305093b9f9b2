"""ELF objects and the loader, modelled from files alone."""
