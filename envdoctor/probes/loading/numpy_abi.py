"""Which extension modules, and libraries behind them, were compiled with numpy 1's headers, which numpy 2 refuses.

numpy's headers put a function into every module that uses its C interface, which compares versions when the module is
imported; the words it would say differ between numpy 1 (_import_array of numpy/core/code_generators/generate_numpy_api)
and numpy 2. A module compiled with numpy 2's headers runs with numpy 1 too.
"""

import mmap
import os
import struct
from collections.abc import Iterable, Iterator, Mapping

from envdoctor.elf.image import open_regular
from envdoctor.facts.context import Reading
from envdoctor.model.frozen import frozen
from envdoctor.probes.loading.gpu_code import read_only_segments
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.owners import Owners
from envdoctor.standards.need import parse_need

_OF_NUMPY_1 = b"module compiled against API version 0x%x but this version of numpy is 0x%x"
_OF_NUMPY_2 = b"module was compiled against NumPy C-API version"
_MAXIMUM = 256 * 1024 * 1024
# Its metadata does not name numpy, which libtorch_python.so uses where it is installed.
_TORCH = "torch"


@frozen
class NumpyUser:
    """An extension module, or a library that one uses, compiled with numpy 1's headers."""

    path: str
    """Relative to the prefix."""
    owner: str
    owner_version: str
    module: bool = True
    """True for what Python imports, which then raises; False for a library, whose first use of an array fails."""


def compiled_for_numpy_1(reading: Reading, paths: Mapping[str, bool], owners: Owners) -> Iterator[NumpyUser]:
    """Yield those among the files of torch and of distributions that require numpy; nothing unless numpy is 2 or newer.

    `paths` has an absolute path -> whether it is an extension module.
    """
    installed = reading.fact(Distributions)
    numpy = installed.active("numpy")
    major = numpy.version.partition(".")[0] if numpy else ""
    if not major.isdecimal() or int(major) < 2:
        return
    askers = {item.name for item in installed.items if _requires_numpy(item.requires)} | {_TORCH}
    for path, module in paths.items():
        owner = owners.of(path)
        if owner is not None and owner.name in askers and _is_for_numpy_1(path):
            yield NumpyUser(path=owners.relative(path), owner=owner.name, owner_version=owner.version, module=module)


def decided_by_metadata(reading: Reading) -> list[str]:
    """Return what of the metadata decides the answer: numpy's version, and who may require it."""
    installed = reading.fact(Distributions)
    numpy = installed.active("numpy")
    asking = (item.name for item in installed.items if any(line[:5].lower() == "numpy" for line in item.requires))
    return [numpy.version if numpy else "", *asking]


def _requires_numpy(lines: Iterable[str]) -> bool:
    # Most lines name something else, and parsing costs more than looking.
    found = (parse_need(line) for line in lines if line[:5].lower() == "numpy" and "extra ==" not in line)
    return any(need is not None and need.name == "numpy" for need in found)


def _is_for_numpy_1(path: str) -> bool:
    try:
        descriptor = open_regular(path)
    except OSError:
        return False
    try:
        size = os.fstat(descriptor).st_size
        if not 0 < size <= _MAXIMUM:
            return False
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data:
            # Most are compiled with numpy 2's headers, whose words stand in a small segment of a library of 30 MB.
            if any(data.find(_OF_NUMPY_2, start, end) >= 0 for start, end in reversed(_segments(data))):
                return False
            return data.find(_OF_NUMPY_1) >= 0 and data.find(_OF_NUMPY_2) < 0
    except (OSError, ValueError):
        return False
    finally:
        os.close(descriptor)


def _segments(data: mmap.mmap) -> list[tuple[int, int]]:
    try:
        return list(read_only_segments(data))
    except (ValueError, struct.error):  # of another kind: it is searched as a whole
        return []
