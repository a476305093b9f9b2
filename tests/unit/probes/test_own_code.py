"""What importing a package does with one of its compiled files, read from the source."""

from pathlib import Path

from envdoctor.probes.loading.own_code import OwnCode
from envdoctor.probes.venv.distributions import Distributions
from tests.factories.make_reading import read
from tests.factories.make_venv import make_venv
from tests.factories.make_wheel import make_wheel

CDLL = "ctypes.CDLL(os.path.join(os.path.dirname(__file__), '_C.so'))"
TRY = f"import ctypes, os\ntry:\n    {CDLL}\nexcept OSError as error:\n    "
LISTED = "import torch\nfrom pathlib import Path\nfor file in list(Path(__file__).parent.glob('{}')):\n"
GLOB = "import ctypes, glob, os\nfound = glob.glob(os.path.dirname(__file__) + '/*.so')\n"
# What the package's __init__.py says -> what importing it does with _C.so.
SOURCES = {
    "from . import _C\n": "at import",
    "from ._C import run\n": "at import",
    "import {name}._C\n": "at import",
    "from . import ops\n": "at import",
    "import importlib\nimportlib.import_module('._C', __name__)\n": "at import",
    f"import ctypes, os\n{CDLL}\n": "at import",
    f"import ctypes, os\ndef load():\n    {CDLL}\nload()\n": "at import",
    f"import ctypes, os\nfor name in ('a',):\n    {CDLL}\n": "at import",
    f"import ctypes, os\nclass Ops:\n    handle = {CDLL}\n": "at import",
    TRY + "raise ImportError('no kernels') from error\n": "at import",
    "try:\n    import yaml\nexcept ImportError:\n    yaml = None\nfrom . import _C\n": "at import",
    TRY + "handle = None\n": "caught",
    "try:\n    from . import _C\nexcept ImportError:\n    _C = None\n": "caught",
    "try:\n    from . import ops\nexcept Exception:\n    pass\n": "caught",
    "try:\n    from . import _C\nexcept (KeyError, ModuleNotFoundError):\n    pass\n": "caught",
    "try:\n    from . import _C\nexcept:\n    pass\n": "caught",
    "try:\n    from . import _C\nexcept KeyError:\n    pass\n": "at import",
    LISTED.format("_C*.so")
    + "    try:\n        torch.ops.load_library(str(file))\n    except Exception:\n        pass\n": "caught",
    LISTED.format("*.so") + "    torch.ops.load_library(str(file))\n": "at import",
    LISTED.format("_D*.so") + "    torch.ops.load_library(str(file))\n": "",
    GLOB + "for file in found:\n    ctypes.CDLL(file)\n": "at import",
    GLOB + "for file in found:\n    path = str(file)\n    ctypes.CDLL(path)\n": "at import",
    GLOB + "handles = [ctypes.CDLL(file) for file in found]\n": "at import",
    GLOB + "ctypes.CDLL(found[0])\n": "at import",
    GLOB + "ctypes.CDLL(os.environ.get('OTHER', 'libc.so.6'))\n": "",
    GLOB + "other = 'libc' + '.so.6'\nctypes.CDLL(other)\n": "",
    GLOB + "for file in found:\n    ctypes.CDLL(other)\n": "",
    GLOB + "found = os.environ['OTHER']\nctypes.CDLL(found)\n": "",
    GLOB + "def load(found):\n    ctypes.CDLL(found)\nload('libc.so.6')\n": "",
    GLOB + "def load():\n    for file in found:\n        ctypes.CDLL(file)\nload()\n": "at import",
    GLOB + "name = 'numpy'\ntry:\n    ctypes.import_module(name)\nexcept OSError:\n    pass\n": "",
    f"import ctypes, os\ndef load():\n    {CDLL}\n": "",
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from . import _C\n": "",
    "import os\nif os.environ.get('WITH_C'):\n    from . import _C\n": "",
    "from . import _Cython\n": "",
    "import other._C\n": "",
    "this is not a Python\n": "",
    "": "",
}


def test_the_statements_that_an_import_executes_decide(tmp_path: Path) -> None:
    wheels, names = [], {}
    for number, text in enumerate(SOURCES):
        name = f"pkg{number}"
        names[text] = name
        files = {
            f"{name}/__init__.py": text.replace("{name}", name),
            f"{name}/ops.py": "from . import _C\n",
            f"{name}/_C.so": "no object",
        }
        wheels.append(make_wheel(tmp_path / "wheels", name, "1", files=files))
    lone = {"lone.abi3.so": "no object"}
    wheels.append(make_wheel(tmp_path / "wheels", "lone", "1", files=lone))
    beside = {"beside_2_cuda.so": "no object", "beside/__init__.py": "import beside_2_cuda as _C\n"}
    wheels.append(make_wheel(tmp_path / "wheels", "beside", "1", files=beside))
    venv = make_venv(tmp_path / "venv", *wheels)
    reading = read(venv.prefix)
    items = {item.name: at for at, item in enumerate(reading.fact(Distributions).items)}

    def opening(name: str, path: str) -> str:
        return OwnCode(reading, items[name]).opening(f"{venv.site_packages}/{path}")

    assert {text: opening(name, f"{name}/_C.so") for text, name in names.items()} == SOURCES
    assert opening("lone", "lone.abi3.so") == "at import"
    assert opening("beside", "beside_2_cuda.so") == "at import"
