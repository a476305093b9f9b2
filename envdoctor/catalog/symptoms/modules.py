"""What Python, pip, uv and packages say of modules, versions and metadata. The special comes before the general."""

from envdoctor.model.symptom import Symptom

_NO_MODULE = ("No module named",)
_CANNOT_IMPORT = ("cannot import name",)
_WHY = ("envdoctor why {module}", "envdoctor check")
_PROFILE = "envdoctor check -p NAME"

MODULES: tuple[Symptom, ...] = (
    Symptom(
        text="No module named pip",
        anchors=_NO_MODULE,
        pattern=r"No module named '?pip'?(?![\w.])",
        meaning="This environment has no pip. uv makes venvs without it; that is not a fault.",
        causes=(
            ("", "use `uv pip install --python VENV …`, or make the venv with `uv venv --seed`"),
            ("ED105", "the interpreter was upgraded, and sees none of the venv's packages"),
        ),
    ),
    Symptom(
        text="ModuleNotFoundError: No module named 'pynvml'",
        anchors=_NO_MODULE,
        pattern=r"No module named '(?P<module>pynvml)'",
        meaning="The module is gone although a distribution that brings it is listed.",
        causes=(
            ("ED409", "two of pynvml, nvidia-ml-py and nvidia-ml-py3 brought it, and one was uninstalled"),
            ("ED406", "no distribution that brings it is installed"),
        ),
        commands=_WHY,
    ),
    Symptom(
        text="ModuleNotFoundError: No module named 'pkg_resources'",
        anchors=_NO_MODULE,
        pattern=r"No module named '(?P<module>pkg_resources|distutils|imp|asyncore|asynchat|smtpd|cgi|pipes|crypt)'",
        meaning="A package imports a module that a newer setuptools or Python does not have any more.",
        causes=(("ED415", "setuptools or Python was upgraded under a package that is older"),),
    ),
    Symptom(
        text="ModuleNotFoundError: No module named 'torch'",
        anchors=_NO_MODULE,
        pattern=r"No module named '(?P<module>torch)'",
        meaning="Python finds no torch: not installed, half installed, or another Python is running.",
        causes=(
            ("ED206", "an uninstall was interrupted: `~orch` is left"),
            ("ED202", "an installation was interrupted: metadata is there, files are not"),
            ("ED103", "the command starts another Python than this environment's"),
            ("ED105", "the interpreter was upgraded, and sees none of the venv's packages"),
            ("ED402", "the lock has it, and it is not installed"),
        ),
        commands=("envdoctor check --require torch", _PROFILE),
    ),
    Symptom(
        text="ModuleNotFoundError: No module named 'yaml'",
        anchors=_NO_MODULE,
        pattern=r"No module named '(?P<module>\w[\w.]{0,200})'",
        meaning="Python finds no such module on its path.",
        causes=(
            ("ED103", "a launcher (torchrun, accelerate) starts another Python than this environment's"),
            ("ED202", "an installation was interrupted: metadata is there, files are not"),
            ("ED206", "an uninstall was interrupted"),
            ("ED412", "an editable install exposes nothing, or its source folder is gone"),
            ("ED406", "a package requires it, and it is not installed"),
            ("ED402", "the lock has it, and it is not installed"),
        ),
        commands=(*_WHY, _PROFILE),
    ),
    Symptom(
        text="FutureWarning: The pynvml package is deprecated. Please install nvidia-ml-py instead.",
        anchors=("pynvml package is deprecated",),
        meaning="The module pynvml on disk is that of the distribution pynvml.",
        causes=(("ED409", "several distributions install the module, and the last one wrote it"),),
        commands=("envdoctor why pynvml", "envdoctor check"),
    ),
    Symptom(
        text="WARNING: Ignoring invalid distribution ~orch (/srv/venv/lib/python3.11/site-packages)",
        anchors=("Ignoring invalid distribution",),
        meaning="pip sees a folder whose name starts with a tilde: what it set aside while it uninstalled.",
        causes=(("ED206", "an installation was interrupted after the old version was set aside"),),
    ),
    Symptom(
        text="ImportError: cannot import name 'triton_key' from 'triton.compiler.compiler'",
        anchors=_CANNOT_IMPORT,
        pattern=r"cannot import name '\w{1,200}' from 'triton",
        meaning="torch.compile calls a function that this triton does not have.",
        causes=(
            ("ED406", "triton is not the version that torch pins"),
            ("ED409", "two distributions install the module triton"),
        ),
        commands=("envdoctor why triton", "envdoctor check"),
    ),
    Symptom(
        text="ImportError: cannot import name 'x' from partially initialized module 'torch' (a circular import)",
        anchors=("partially initialized module",),
        pattern=r"(?:cannot import name '\w{1,200}' from )?partially initialized module",
        meaning="A name is taken from a module whose own import has not ended.",
        causes=(
            ("ED410", "the module of a package: a file of that name, often of the project, comes first on sys.path"),
            ("", "a module of the project: two modules import each other"),
        ),
    ),
    Symptom(
        text="ImportError: cannot import name 'clear_device_cache' from 'accelerate.utils.memory'",
        anchors=_CANNOT_IMPORT,
        meaning="A package asks another one for something that its installed version does not have.",
        causes=(
            ("ED416", "the other package is too old or too new, which its metadata allows"),
            ("ED406", "a declared requirement is not met"),
            ("ED410", "another module of that name comes first on sys.path"),
        ),
    ),
    Symptom(
        text="TritonMissing: Cannot find a working triton installation.",
        anchors=("Cannot find a working triton installation", "TritonMissing"),
        meaning="torch.compile finds no triton that works.",
        causes=(
            ("ED406", "triton is not installed, or not the version that torch pins"),
            ("ED409", "two distributions install the module triton"),
        ),
        commands=("envdoctor why triton", "envdoctor check"),
    ),
    Symptom(
        text="BackendCompilerFailed: backend='inductor' raised:",
        anchors=("backend='inductor' raised",),
        meaning="torch.compile failed; the line below says of what.",
        causes=(
            ("ED406", "triton is not the version that torch pins"),
            ("ED705", "there is no C++ compiler, or no Python headers"),
            ("ED504", "a file of the compile cache is damaged"),
        ),
        commands=("envdoctor check", _PROFILE),
    ),
    Symptom(
        text="RuntimeError: operator torchvision::nms does not exist",
        anchors=("operator torchvision::", "operator torchaudio::"),
        meaning="torchvision's extension did not load into the torch that was imported.",
        causes=(
            ("ED408", "torchvision is not the release that belongs to torch"),
            ("ED410", "an older torch is imported first: PYTHONPATH, the user site, another layer"),
        ),
        commands=("envdoctor why torch", "envdoctor check"),
    ),
    Symptom(
        text="ImportError: Using `low_cpu_mem_usage=True` or a `device_map` requires Accelerate",
        anchors=("requires Accelerate", "requires `accelerate"),
        meaning="transformers asks for accelerate when a function is called; its metadata does not.",
        causes=(("ED407", "accelerate is not installed, or too old: the text is the same"),),
    ),
    Symptom(
        text="ImportError: FlashAttention2 has been toggled on, but it cannot be used",
        anchors=("FlashAttention2 has been toggled on", "flash_attn seems to be not installed"),
        meaning="transformers was asked for flash-attn and cannot import it.",
        causes=(
            ("", "it is not installed: transformers does not require it, so no check looks for it"),
            ("ED309", "its extension was built for another torch"),
            ("ED406", "its version is not the one that an installed package requires"),
        ),
        commands=("envdoctor why flash_attn", "envdoctor check"),
    ),
    Symptom(
        text="TransformerEngine package version mismatch. Found transformer_engine_torch v2.7.0",
        anchors=("package version mismatch",),
        meaning="Packages of one family check at import that they are of one version.",
        causes=(("ED406", "one of them was upgraded alone"),),
    ),
    Symptom(
        text="VersionError: Detected incompatible Protobuf Gencode/Runtime versions when loading",
        anchors=("incompatible Protobuf Gencode/Runtime versions", "gencode "),
        pattern=r"incompatible Protobuf Gencode/Runtime versions|gencode [\d.]+ runtime [\d.]+",
        meaning="A package contains code that was generated by a newer protobuf.",
        causes=(("ED414", "protobuf is older than the package's generated code; metadata allows it"),),
    ),
    Symptom(
        text="The installed pydantic-core version (2.41.4) is incompatible with the current pydantic version",
        anchors=("is incompatible with the current pydantic", "Numba needs NumPy"),
        meaning="A package refuses at import a version of what it requires.",
        causes=(("ED406", "an exact requirement is not met"),),
    ),
    Symptom(
        text="ImportError: tokenizers>=0.22.0,<=0.23.0 is required for a normal functioning of this module, but found "
        "tokenizers==0.19.1.",
        anchors=("is required for a normal functioning of this module",),
        meaning="transformers refuses at import a version of what it requires.",
        causes=(
            ("ED406", "another version is installed"),
            ("ED410", "the right one is installed, and one of the user site or of PYTHONPATH is imported first"),
        ),
    ),
    Symptom(
        text="ImportError: the module was compiled for Python 3.9, not for this interpreter",
        anchors=("compiled for Python 3", "built for python 3", "built for Python 3", "bad magic number in"),
        meaning="A module of another Python is imported.",
        causes=(
            ("ED603", "PYTHONPATH or the user site leads to the packages of another Python"),
            ("ED410", "such a folder comes before the environment's own packages"),
            ("ED104", "a distribution was built for another Python"),
        ),
    ),
    Symptom(
        text="A module that was compiled using NumPy 1.x cannot be run in NumPy 2.0.0 as it may crash.",
        anchors=(
            "compiled using NumPy 1.x cannot be run",
            "module compiled against API version",
            "module was compiled against NumPy C-API version",
            "module that was compiled against ABI version",
            "numpy.dtype size changed",
            "_ARRAY_API not found",
            "numpy.core.multiarray failed to import",
        ),
        meaning="An extension, or torch itself, was compiled with the headers of numpy 1.",
        causes=(("ED312", "numpy was upgraded to 2"),),
    ),
    Symptom(
        text="PackageNotFoundError: No package metadata was found for torch",
        anchors=("No package metadata was found for",),
        meaning="The module may be there, and its metadata is not.",
        causes=(
            ("ED417", "the metadata folders were deleted to make an image smaller"),
            ("ED205", "an installation was interrupted, or a metadata folder is incomplete"),
            ("ED206", "an uninstall was interrupted"),
        ),
    ),
    Symptom(
        text="ValueError: Unable to compare versions for torch>=2.4: need=2.4 found=None",
        anchors=("Unable to compare versions for", "found=None"),
        pattern=r"Unable to compare versions.*found=None",
        meaning="importlib.metadata knows the distribution and no version of it.",
        causes=(
            ("ED405", "it has two metadata folders, one of which is empty"),
            ("ED205", "its metadata folder is incomplete"),
        ),
    ),
    Symptom(
        text="AssertionError: Torch not compiled with CUDA enabled",
        anchors=("Torch not compiled with CUDA enabled", "Distributed package doesn't have NCCL built in"),
        meaning="The torch that is installed is a CPU build.",
        causes=(
            ("ED404", "an installation replaced the profile's CUDA build: `uv run` without its extra, another index"),
            ("ED411", "a CPU build was installed on a machine with GPUs"),
        ),
        commands=("envdoctor check", _PROFILE),
    ),
    Symptom(
        text="ERROR: torch-2.11.0-cp312-cp312-manylinux_2_28_x86_64.whl is not a supported wheel on this platform.",
        anchors=("is not a supported wheel on this platform",),
        meaning="The wheel is for another Python, another machine or a newer glibc.",
        causes=(
            ("", "take the wheel whose file name has this Python's tag"),
            ("ED104", "what is installed already is for another Python"),
        ),
    ),
    Symptom(
        text="Hash mismatch for `torchvision==0.26.0+cu128`",
        anchors=("Hash mismatch for", "DO NOT MATCH THE HASHES"),
        meaning="A wheel's bytes are not those that the lock names. A restore stops before anything is changed.",
        causes=(
            ("", "the index published the file again, or the lock has no hash for this platform: lock it again"),
            ("", "somebody replaced the file: compare it with another source before you accept it"),
        ),
        commands=("envdoctor restore -p NAME --dry-run",),
    ),
    Symptom(
        text="Because there is no version of filelock==3.12.4 and you require filelock==3.12.4",
        anchors=("no version of ",),
        pattern=r"no version of [\w.\[\]-]{1,100}[=<>~!]",
        meaning="The indexes that uv looked at do not have that version.",
        causes=(
            ("", "it was never published, was yanked, or is a build (+cu128) of an index that is not configured"),
            ("", "a later index has it, and uv stopped at the first one with that name: its hint says so"),
        ),
        commands=(),
    ),
    Symptom(
        text="hint: A compatible version may be available on a subsequent index",
        anchors=("may be available on a subsequent index",),
        meaning="uv takes a name from the first index that has it, and looks at no other one.",
        causes=(
            ("", "the first index has other versions of that name: give the package its index in [tool.uv.sources]"),
            ("ED404", "the torch that came from the first index is another build than the profile's"),
        ),
        commands=(_PROFILE,),
    ),
    Symptom(
        text="EOFError: marshal data too short",
        anchors=("marshal data too short", "bad marshal data", "bad magic number in"),
        pattern=r"marshal data too short|bad marshal data|bad magic number in '[\w.]{1,200}'",
        meaning="Python reads bytecode (a .pyc) that is cut, damaged or of another Python.",
        causes=(
            ("ED209", "`check --deep` names the file and its owner"),
            ("", "`find VENV/lib/ -type f -path '*/__pycache__/*.pyc' -delete`; Python writes it again"),
            ("ED202", "a .pyc is in the place of its source, and is of another Python"),
        ),
        commands=("envdoctor check --deep",),
    ),
)
