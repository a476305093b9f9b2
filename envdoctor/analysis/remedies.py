"""Commands that fix, written once."""

import shlex
from collections.abc import Collection, Iterable
from urllib.parse import unquote, urlsplit

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import is_longer_bundle, renamed
from envdoctor.analysis.linked_site import folder_again
from envdoctor.analysis.taken_away import (
    in_the_way,
    links_out,
    not_to_uninstall,
    records_leading_out,
    unparsable_records,
    with_sharers,
)
from envdoctor.model.finding import BY_HAND, Remediation
from envdoctor.model.pattern import pattern
from envdoctor.probes.machine.environment import Environment
from envdoctor.probes.machine.platform import Platform
from envdoctor.probes.venv.conda import Conda
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter

_PYENV = pattern(r"/\.?pyenv/versions/([^/]+)/")
# uv keeps its own Pythons below .local/share/uv/python, or in UV_PYTHON_INSTALL_DIR under names like these.
_UV_PYTHON = pattern(r"/cpython-3\.\d+\.\d+[^/]*-linux-[^/]+/")

_OFFLINE = "--offline "
# Published with and without a local version such as +cu128: on the indexes of PyTorch, vLLM and PyG, on release pages.
SEVERAL_BUILDS = frozenset(
    {
        "flash-attn",
        "pyg-lib",
        "torch",
        "torch-cluster",
        "torch-scatter",
        "torch-sparse",
        "torchaudio",
        "torchvision",
        "vllm",
        "xformers",
    }
)


def restore_command(case: CheckContext) -> str:
    """Return the `envdoctor restore` line for the case's profile, or empty without one."""
    if case.profile is None:
        return ""
    return f"envdoctor restore --profile {case.profile_argument} --venv {case.prefix}"


def uninstall_command(case: CheckContext, names: Iterable[str]) -> str:
    """Return the uv line that removes those distributions; shown where `not_to_uninstall` says nothing against it."""
    return " && ".join(exchange_commands(case, names, ()))


def exchange_commands(case: CheckContext, names: Iterable[str], pins: Iterable[tuple[str, str]]) -> list[str]:
    """Return the uv line that removes those distributions, and the one that puts back the files of the pinned others.

    What has files behind a link that the first takes away is installed again by the second, which does not take it
    away once more.
    """
    chosen = list(names)
    links = links_out(case, chosen)
    first = f"{_remove(links)}uv pip uninstall --python {case.python} {' '.join(map(shlex.quote, chosen))}"
    # What the others have behind the same link goes with it.
    behind = with_sharers(case, [*pins, *((name, "") for name in chosen)])
    others = [pin for pin in behind if pin[0] not in chosen]
    return [first, _reinstall(case, others, links)] if others else [first]


def unless_outside(case: CheckContext, names: Iterable[str], remedy: Remediation, keep: str = "") -> Remediation:
    """Return the remedy, which uninstalls those; another where the RECORD of one lists paths outside, behind no link.

    keep: what else than an uninstall can be done, if anything.
    """
    words = not_to_uninstall(case, names)
    return restore_or(case, f"{keep}, or {words}" if keep else words, ()) if words else remedy


def reinstall_command(case: CheckContext, pins: Iterable[tuple[str, str]]) -> str:
    """Return the uv line that puts those distributions' files back.

    A plain install would do nothing: the metadata says they are there. Dependencies are left alone. A RECORD with rows
    that are none goes first: uv refuses to replace what has one, and goes on without one. So does a file, or a link to
    nowhere, where a folder should be: uv stops at it; and a link to a folder elsewhere: uv would follow it, and delete
    somebody's own files. A metadata folder that was renamed gets its name back, or there would be two. What is
    published in several builds is asked for by `===`. A wheel that uv's cache holds whole is not fetched again: uv does
    that for a reinstall unless it is told to stay offline. Whatever else has files behind a link that goes is installed
    again too. A RECORD with a row that leads out behind no link goes as well: an older uv deletes what it lists.
    """
    return _reinstall(case, with_sharers(case, pins))


def _reinstall(case: CheckContext, pins: Iterable[tuple[str, str]], removed: Collection[str] = ()) -> str:
    """Return that line for exactly these; `removed` are links that are gone by then."""
    chosen = [(name, _version_by_record(case, name) or version) for name, version in pins]
    names = [name for name, _ in chosen]
    bad = [record for name in names for record in (*unparsable_records(case, name), *records_leading_out(case, name))]
    links = [path for path in links_out(case, names) if path not in removed]
    first = _named_again(case, names) + _remove([*dict.fromkeys(bad), *in_the_way(case, names), *links])
    first += _cleared(case, names)
    first, after = _saved(case, names, first)
    flags = " ".join(f"--reinstall-package {shlex.quote(name)}" for name, _ in chosen)
    specs = " ".join(_again(case, name, version) for name, version in chosen)
    offline = _OFFLINE if _is_cached(case, chosen) else ""
    first = folder_again(case, names) + first
    return f"{first}uv pip install --python {case.python} {offline}--no-deps {flags} {specs}{after}"


def _is_cached(case: CheckContext, pins: Collection[tuple[str, str]]) -> bool:
    """Tell whether uv's cache holds each of these as it is installed, and no file of it that is wrong there too."""
    files, installed, deep = case.facts.get(InstalledFiles), case.facts.get(Distributions), case.facts.get(DeepFiles)
    if files is None or installed is None:
        return False
    wrong = {fault.owner for fault in files.faults if fault.cached_at or fault.published_at}
    wrong |= {one.owner for one in deep.altered} if deep else set()
    active = {name: installed.active(name) for name, _ in pins}
    return all(
        name in files.held and name not in wrong and (item := active[name]) is not None and item.version == version
        for name, version in pins
    )


def same_build(name: str, version: str) -> str:
    """Return the requirement that only the installed build meets.

    `torch==2.10.0` is met by 2.10.0+cpu too, which an index of such builds would then put in its place (PEP 440,
    "Version matching"); `===` compares the whole text.
    """
    several = name in SEVERAL_BUILDS and "+" not in version and "*" not in version
    return f"{name}{'===' if several else '=='}{version}"


def _version_by_record(case: CheckContext, name: str) -> str:
    """Return the version that only RECORD tells: the metadata folder was renamed, and METADATA is gone."""
    installed = case.facts.get(Distributions)
    item = installed.active(name) if installed else None
    if item is None or item.has_metadata or not item.has_record:
        return ""
    return _renamed(case).get(name, "").removesuffix(".dist-info").partition("-")[2]


def _renamed(case: CheckContext) -> dict[str, str]:
    known = case.facts.get(InstalledFiles) and case.facts.get(Distributions)
    return renamed(case) if known else {}


def _named_again(case: CheckContext, names: Collection[str]) -> str:
    found = _renamed(case)
    return "".join(f"{rename_command(case, name, found[name])} && " for name in names if name in found)


def rename_command(case: CheckContext, name: str, folder: str) -> str:
    """Return the command that gives the metadata folder of a distribution its name back."""
    item = case.facts[Distributions].active(name)
    site, now = (item.site, item.folder) if item else ("", "")
    return f"mv {shlex.quote(f'{site}/{now}')} {shlex.quote(f'{site}/{folder}')}"


def _cleared(case: CheckContext, names: Collection[str]) -> str:
    """Return what takes away what no RECORD tells of; a folder with something in it is moved aside, never deleted."""
    files = case.facts.get(InstalledFiles)
    found = [item for item in files.obstacles if item.owner in names] if files else []
    known = {*in_the_way(case, names), *links_out(case, names)}
    paths = {
        item.path if item.path.startswith("/") else f"{case.facts.target}/{item.path}": item.filled for item in found
    }
    paths = {path: filled for path, filled in paths.items() if path not in known}
    empty = sorted(path for path, filled in paths.items() if not filled)
    parts = [f"rm -d {' '.join(map(shlex.quote, empty))}"] if empty else []
    parts += [
        f"mv -T {shlex.quote(path)} {shlex.quote(f'{path}.aside')}" for path, filled in sorted(paths.items()) if filled
    ]
    return "".join(f"{part} && " for part in parts)


def _saved(case: CheckContext, names: Collection[str], first: str) -> tuple[str, str]:
    """Return what saves the certificates that an operator appended to a bundle before, and puts them back after."""
    files = case.facts.get(InstalledFiles)
    found = [fault.path for fault in files.faults if fault.owner in names and is_longer_bundle(fault)] if files else []
    paths = [path if path.startswith("/") else f"{case.facts.target}/{path}" for path in found]
    before = (f"cp -p {shlex.quote(path)} {shlex.quote(f'{path}.own')} && " for path in paths)
    after = (f" && mv -f {shlex.quote(f'{path}.own')} {shlex.quote(path)}" for path in paths)
    return "".join((*before, first)), "".join(after)


def _again(case: CheckContext, name: str, version: str) -> str:
    """Return what installs that distribution again, from where it came: an index may have another one of its name."""
    installed = case.facts.get(Distributions)
    item = installed.active(name) if installed else None
    if item is None or not item.built_from or item.version != version or name in case.pins():
        return shlex.quote(same_build(name, version) if version else name)
    if item.editable:
        return f"--editable {shlex.quote(unquote(urlsplit(item.built_from).path))}"
    return shlex.quote(f"{name} @ {item.built_from}")


def _remove(paths: Collection[str]) -> str:
    return f"rm {' '.join(map(shlex.quote, paths))} && " if paths else ""


def renew_command(case: CheckContext, base: str = "", flags: str = "") -> str:
    """Return the uv line that links the venv's interpreter and writes its pyvenv.cfg again; the packages stay.

    base: the interpreter or version to take; by default the venv's base by its path while it is there, since a bare
    version can mean any interpreter on PATH. flags: more options for uv, each followed by a space.
    """
    python = case.facts[Interpreter]
    wanted = base or python.base_executable or python.folder.removeprefix("python")
    # uv writes pyvenv.cfg and the scripts to activate from its options alone: left out, the packages of the base would
    # be out of sight, and a venv that can be renamed no longer could.
    kept = "--system-site-packages " if python.is_venv and python.system_site_packages else ""
    kept += "--relocatable " if python.relocatable else ""
    if python.prompt and python.prompt != case.facts.target.rpartition("/")[2]:
        kept += f"--prompt {shlex.quote(python.prompt)} "
    return f"uv venv --allow-existing {flags}{kept}--python {shlex.quote(wanted)} {case.prefix}"


def reinstall_python(case: CheckContext, prefix: str) -> tuple[str, list[str]]:
    """Return how the Python of a prefix that is not a venv comes back: by the tool that put it there, and no other.

    `uv venv` there would overwrite the interpreter of conda or of the system.
    """
    python, conda = case.facts[Interpreter], case.facts.get(Conda)
    version = python.folder.removeprefix("python")
    if conda is not None and (conda.packages or conda.base == prefix):
        command = f"conda install --prefix {shlex.quote(prefix)} --force-reinstall python={version}"
        return "reinstall conda's own Python, in the environment as it is", [command]
    if match := _PYENV.search(f"{prefix}/"):
        return "reinstall this Python of pyenv's; what pip installed into it goes with it", [
            f"pyenv install --force {shlex.quote(match[1])}"
        ]
    if _UV_PYTHON.search(f"{prefix}/"):
        return "reinstall this Python of uv's", [f"uv python install --reinstall {version}"]
    platform = case.facts.get(Platform)
    if platform is not None and platform.debian:
        packages = f"python{version}-minimal libpython{version}-minimal libpython{version}-stdlib"
        return "reinstall the system's Python from its packages", [f"sudo apt-get install --reinstall {packages}"]
    return "reinstall this Python with the package manager that installed it", []


def install_command(case: CheckContext, pins: Iterable[tuple[str, str]], *, dependencies: bool = False) -> str:
    """Return the uv line that installs exactly those versions and nothing else, or what they require too."""
    specs = " ".join(shlex.quote(f"{name}=={version}" if version else name) for name, version in pins)
    return f"uv pip install --python {case.python} {'' if dependencies else '--no-deps '}{specs}"


def restore_or(case: CheckContext, text: str, commands: Iterable[str]) -> Remediation:
    """Return the restore of the profile where there is one, else the given commands."""
    restore = restore_command(case)
    if restore:
        return Remediation(
            text=f"Rebuild the profile's stack beside this one and swap it in{BY_HAND}{text}",
            commands=(restore,),
            safe=True,
        )
    return Remediation(text=text, commands=tuple(commands), safe=False)


def locked_or(case: CheckContext, text: str, commands: Iterable[str]) -> Remediation:
    """Return the restore of the profile where there is one, else the install of the lock by its own tool."""
    if case.profile is None and case.lock is not None and case.lock.install:
        # Not str.format: a project's path may hold braces.
        command = case.lock.install.replace("{python}", case.python).replace("{prefix}", case.prefix)
        return Remediation(text=f"{text}, with the tool that the lock belongs to", commands=(command,), safe=False)
    return restore_or(case, text, commands)


def repair_or(case: CheckContext, text: str, commands: Iterable[str]) -> Remediation:
    """Return the repair on a copy for several steps between which the venv would be broken, where repair can do it.

    Unlike uv's lines it takes the sources that pip is configured with, and takes nothing away before the rest is there.
    """
    steps = tuple(commands)
    if case.profile is not None or not _can_repair(case):
        return restore_or(case, text, steps)
    return Remediation(
        text=f"Repair it on a copy, which is verified and then swapped in{BY_HAND}{text}",
        commands=(f"envdoctor repair --venv {case.prefix}",),
        safe=True,
        by_hand=steps,
    )


def _can_repair(case: CheckContext) -> bool:
    """Tell whether `envdoctor repair` would not refuse.

    It wants a venv, no wheel whose own RECORD its files do not fit, and packages that are not behind a link out of it,
    which a copy would have too.
    """
    files, installed = case.facts.get(InstalledFiles), case.facts.get(Distributions)
    if not case.facts[Interpreter].is_venv or files is None or installed is None:
        return False
    if any(not owner for owner, _ in files.links_out):
        return False
    return not any(fault.published_at for fault in files.faults)


def without_folder(case: CheckContext, folder: str) -> str:
    """Return the shell command that sets PYTHONPATH without that folder, or unsets it where nothing remains."""
    value = case.facts[Environment].value("PYTHONPATH") or ""
    kept = [element for element in value.split(":") if element and element.rstrip("/") != folder.rstrip("/")]
    return f"export PYTHONPATH={shlex.quote(':'.join(kept))}" if kept else "unset PYTHONPATH"


def leave_out_command(case: CheckContext, origin: str, folder: str) -> str:
    """Return the shell command that keeps a folder of another place (user site, PYTHONPATH) out of sys.path."""
    return "export PYTHONNOUSERSITE=1" if origin == "user site" else without_folder(case, folder)


def without_library_folder(case: CheckContext, file: str) -> str:
    """Return the shell command that takes a file's folder out of LD_LIBRARY_PATH and leaves the other elements."""
    environment = case.facts.get(Environment)
    elements = ((environment.value("LD_LIBRARY_PATH") if environment else None) or "").split(":")
    folder = file.rpartition("/")[0]
    kept = [element for element in elements if element and element.rstrip("/") != folder.rstrip("/")]
    return f"export LD_LIBRARY_PATH={shlex.quote(':'.join(kept))}" if kept else "unset LD_LIBRARY_PATH"


def link_again(file: str, soname: str) -> Remediation:
    """Return the remedy for a library that is in a searched folder under its full name, without its soname's link."""
    folder, _, name = file.rpartition("/")
    return Remediation(
        text=f"{file} is the library; only the link {soname} to it is missing beside it. Make it, or reinstall "
        "the file with the package manager that installed it",
        commands=(f"ln -s {shlex.quote(name)} {shlex.quote(f'{folder}/{soname}')}",),
        safe=True,
    )


def through_cache(case: CheckContext, pins: Iterable[tuple[str, str]], commands: Iterable[str]) -> Remediation:
    """Return the remedy for files that uv's cache holds in the same wrong state: its copy goes first."""
    names = [name for name, _ in pins]
    restore = restore_command(case)
    clean = f"uv cache clean {' '.join(map(shlex.quote, names))}"
    return Remediation(
        text=f"clean {', '.join(names)} out of uv's cache first: a reinstall alone links the same bytes again. Every "
        "other venv linked from that cache has them too",
        # What was cleaned has to be fetched.
        commands=(clean, *([restore] if restore else (one.replace(_OFFLINE, "") for one in commands))),
        # Where the wheel was not found again, the clean takes the last unpacked copy.
        safe=False,
    )
