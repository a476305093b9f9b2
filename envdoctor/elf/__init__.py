"""ELF objects and the loader, modelled from files alone.

From the file up: `image` and `reader` (one object's dynamic facts), `versions` and `symbols` (what it asks for and
offers), `ldcache` and `search` (where a name is looked for), `host` (this machine's share of that), `graph` (dlopen),
`binding` (symbols at dlopen), `torch_init` and `torch_import` (what `import torch` maps, or raises), `lazy` (what is
opened at first use). A typical use:

    disk = Disk()
    roots = search_roots("/venv/bin/python", library_path=..., cpu_flags=..., cwd=..., disk=disk)
    played = simulate_import(TorchTarget(torch=..., sys_path=..., executable=..., cuda="12.8"), roots, disk)
    played.failure        # the exception `import torch` would raise, word for word, or None
    played.missing        # every name that cannot be mapped, not only the first
    played.objects        # each mapped file, how it was found and who asked for it
    played.lazy           # what would fail only at first use

Any other extension module: `Loader(roots, disk, binder=Binder())`, `start(program)`, then `open(path)`; after torch,
`played, loader = play_import(..., binder=Binder())`, then `loader.fork().open(path)` for each.

Not modelled: audit modules, link-map namespaces, DT_FILTER and DT_AUXILIARY, prelinking, musl's loader.
"""
