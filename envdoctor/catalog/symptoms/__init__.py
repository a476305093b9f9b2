"""Error texts by which people search, one table a subject. Adding a text is one row; `make docs` writes it down.

Sources: the sources of glibc (elf/dl-*.c), CPython, torch, Triton, NCCL, the CUDA runtime's cudaGetErrorString, pip and
uv, and the reports that docs/cases.md links.
"""
