"""Which Debian package brings a library that wheels leave to the system.

Sources: the "list of files" of each package in Debian 12 (bookworm) and Ubuntu 24.04 (noble, whose packages of the
64-bit time_t transition end in "t64" and provide the old names, so that these names can be installed on both). For
FFmpeg the sonames of its releases' version.h: libavutil 56 to 61 are FFmpeg 4 to 9.
"""

PACKAGES: dict[str, str] = {
    "libaio.so.1": "libaio1",
    "libasound.so.2": "libasound2",
    "libbz2.so.1.0": "libbz2-1.0",
    "libcurl.so.4": "libcurl4",
    "libefa.so.1": "ibverbs-providers",
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libGLU.so.1": "libglu1-mesa",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgomp.so.1": "libgomp1",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libheif.so.1": "libheif1",
    "libhwloc.so.15": "libhwloc15",
    "libibumad.so.3": "libibumad3",
    "libibverbs.so.1": "libibverbs1",
    "libjemalloc.so.2": "libjemalloc2",
    "libmlx5.so.1": "ibverbs-providers",
    "libmpi.so.40": "libopenmpi3",
    "libnl-3.so.200": "libnl-3-200",
    "libnl-route-3.so.200": "libnl-route-3-200",
    "libnuma.so.1": "libnuma1",
    "libOpenCL.so.1": "ocl-icd-libopencl1",
    "libOpenGL.so.0": "libopengl0",
    "libportaudio.so.2": "libportaudio2",
    "librdmacm.so.1": "librdmacm1",
    "libSM.so.6": "libsm6",
    "libsndfile.so.1": "libsndfile1",
    "libsox.so.3": "libsox3",
    "libtbb.so.12": "libtbb12",
    "libtcmalloc.so.4": "libgoogle-perftools4",
    "libucp.so.0": "libucx0",
    "libucs.so.0": "libucx0",
    "libuct.so.0": "libucx0",
    "libusb-1.0.so.0": "libusb-1.0-0",
    "libvulkan.so.1": "libvulkan1",
    "libX11.so.6": "libx11-6",
    "libXext.so.6": "libxext6",
    "libXrender.so.1": "libxrender1",
    "libxcb.so.1": "libxcb1",
    "libz.so.1": "zlib1g",
}
"""soname -> package."""

_FFMPEG: dict[str, tuple[int, ...]] = {
    "libavutil": (56, 57, 58, 59, 60, 61),
    "libavcodec": (58, 59, 60, 61, 62, 63),
    "libavformat": (58, 59, 60, 61, 62, 63),
    "libavdevice": (58, 59, 60, 61, 62, 63),
    "libavfilter": (7, 8, 9, 10, 11, 12),
    "libswscale": (5, 6, 7, 8, 9, 10),
    "libswresample": (3, 4, 5, 6, 7, 8),
}
"""Library -> its soname's version in FFmpeg 4, 5, 6, 7, 8, 9."""
_FIRST_FFMPEG = 4


def package_of(soname: str) -> str:
    """Return the Debian package that brings a soname; empty when it is not known."""
    return "ffmpeg" if ffmpeg_of(soname) else PACKAGES.get(soname, "")


def ffmpeg_of(soname: str) -> int:
    """Return the FFmpeg release (6) that a soname ("libavutil.so.58") belongs to; 0 for another library's."""
    stem, _, version = soname.partition(".so.")
    versions = _FFMPEG.get(stem, ())
    number = int(version) if version.isascii() and version.isdecimal() else -1
    return _FIRST_FFMPEG + versions.index(number) if number in versions else 0
