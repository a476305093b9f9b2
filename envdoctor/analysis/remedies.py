"""Commands that fix, written once."""

import shlex
from collections.abc import Collection, Iterable

from envdoctor.analysis.context import CheckContext
from envdoctor.analysis.damage import renamed, unfit
from envdoctor.analysis.file_conflicts import file_conflicts
from envdoctor.analysis.linked_site import folder_again
from envdoctor.analysis.taken_away import (
    cleared,
    in_the_way,
    links_out,
    not_to_uninstall,
    records_leading_out,
    removed_first,
    saved,
    unparsable_records,
    with_sharers,
)
from envdoctor.model.finding import BY_HAND, Remediation
from envdoctor.probes.venv.deep_files import DeepFiles
from envdoctor.probes.venv.distributions import Distribution, Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles
from envdoctor.probes.venv.interpreter import Interpreter
from envdoctor.probes.venv.own_packages import asked_again, is_from_elsewhere

_INSTALL = "uv pip install"
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
    first = f"{removed_first(links)}uv pip uninstall --python {case.python} {' '.join(map(shlex.quote, chosen))}"
    # What the others have behind the same link goes with it.
    behind = with_sharers(case, [*pins, *((name, "") for name in chosen)])
    others = [pin for pin in behind if pin[0] not in chosen]
    if not others:
        return [first]
    # With a link, working files of the others go: only once uv has found them.
    asked = dry_run(case, f"--no-deps {words_again(case, _as_recorded(case, others))}") if links else ""
    return [asked + first, _reinstall(case, others, links)]


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
    Before a link goes, behind which the files may be whole, uv has found what takes their place. uv cannot write to the
    user site, and would install a second one beside it: pip does that.
    """
    chosen = with_sharers(case, pins)
    of_user = [pin for pin in chosen if (item := _active(case, pin[0])) and item.origin == "user site"]
    others = [pin for pin in chosen if pin not in of_user]
    return " && ".join(
        [*([_reinstall(case, others)] if others else []), *([_by_pip(case, of_user)] if of_user else [])]
    )


def _by_pip(case: CheckContext, pins: Collection[tuple[str, str]]) -> str:
    specs = " ".join(_again(case, name, version) for name, version in _as_recorded(case, pins))
    return f"{case.python} -m pip install --user --no-deps --force-reinstall {specs}"


def install_line(case: CheckContext, names: Collection[str], words: str, removed: Collection[str] = ()) -> str:
    """Return `uv pip install --python … WORDS`, which installs or replaces those distributions, and harms nothing else.

    What stands in the way, and links out of the environment, go as before a reinstall. Without `--no-deps` uv may
    replace others too: of those with files behind a link each is asked for as it is, so that uv leaves it.
    removed: links that are gone by then.
    """
    there = [name for name in names if _active(case, name)]
    others = [pin for pin in with_sharers(case, [(name, "") for name in there]) if pin[0] not in names]
    again = [name for name, _ in others]
    words += f" {words_again(case, others)}" if others else ""
    if "--no-deps" not in words.split():
        asked = shlex.split(words)
        words += "".join(f" {shlex.quote(pin)}" for pin in _held(case, {*names, *again}) if pin not in asked)
    return _line(case, [*there, *again], words, removed, again=again)


def _held(case: CheckContext, changing: Collection[str]) -> list[str]:
    """Return requirements that keep those with files behind a link out of the environment as they are."""
    files = case.facts.get(InstalledFiles)
    owners = {owner for owner, link in files.links_out if owner and not link.startswith("/")} if files else set()
    found = [_active(case, name) for name in sorted(owners.difference(changing))]
    return [f"{item.name}==={item.version}" for item in found if item and item.version]


def _active(case: CheckContext, name: str) -> Distribution | None:
    installed = case.facts.get(Distributions)
    return installed.active(name) if installed else None


def _reinstall(case: CheckContext, pins: Iterable[tuple[str, str]], removed: Collection[str] = ()) -> str:
    """Return that line for exactly these; `removed` are links that are gone by then."""
    chosen = _as_recorded(case, pins)
    names = [name for name, _ in chosen]
    offline = _OFFLINE if _is_cached(case, chosen) else ""
    return _line(case, names, f"{offline}--no-deps {words_again(case, chosen)}", removed, again=names)


def _as_recorded(case: CheckContext, pins: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, _version_by_record(case, name) or version) for name, version in pins]


def words_again(case: CheckContext, pins: Collection[tuple[str, str]]) -> str:
    """Return what makes uv install these once more, each from where it came."""
    flags = " ".join(f"--reinstall-package {shlex.quote(name)}" for name, _ in pins)
    return f"{flags} {' '.join(_again(case, name, version) for name, version in pins)}"


def _line(
    case: CheckContext, names: Collection[str], words: str, removed: Collection[str] = (), *, again: Collection[str]
) -> str:
    """Return the uv line with these words, behind what makes way for `names`; those of `again` keep their versions."""
    bad = [record for name in again for record in (*unparsable_records(case, name), *records_leading_out(case, name))]
    links = [path for path in links_out(case, names) if path not in removed]
    first = _named_again(case, names) + removed_first([*dict.fromkeys(bad), *in_the_way(case, names), *links])
    first += cleared(case, names)
    first, after = saved(case, again, first)
    asked = dry_run(case, words) if links else ""
    return f"{asked}{folder_again(case, names)}{first}{_INSTALL} --python {case.python} {words}{after}"


def dry_run(case: CheckContext, words: str) -> str:
    """Return the question whether uv finds everything, ending in ` && `: it changes nothing."""
    return f"{_INSTALL} --dry-run --python {case.python} {words} && "


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


def _again(case: CheckContext, name: str, version: str) -> str:
    """Return what installs that distribution again, from where it came: an index may have another one of its name."""
    installed = case.facts.get(Distributions)
    item = installed.active(name) if installed else None
    if item is None or not item.built_from or item.version != version or name in case.pins():
        return shlex.quote(same_build(name, version) if version else name)
    return asked_again(item)


def install_command(case: CheckContext, pins: Iterable[tuple[str, str]], *, dependencies: bool = False) -> str:
    """Return the uv line that installs exactly those versions and nothing else, or what they require too."""
    chosen = list(pins)
    specs = " ".join(shlex.quote(f"{name}=={version}" if version else name) for name, version in chosen)
    return install_line(case, [name for name, _ in chosen], f"{'' if dependencies else '--no-deps '}{specs}")


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

    It wants a venv, no wheel whose own RECORD its files do not fit, packages that are not behind a link out of it,
    which a copy would have too, and nothing to install again that no index has.
    """
    files, installed = case.facts.get(InstalledFiles), case.facts.get(Distributions)
    if not case.facts[Interpreter].is_venv or files is None or installed is None:
        return False
    if any(not owner for owner, _ in files.links_out):
        return False
    elsewhere = {item.name for item in installed.items if is_from_elsewhere(item) and not item.shadowed}
    if elsewhere:
        again = {fault.owner for fault in unfit(case)} | {pair.wanted for pair in file_conflicts(case)}
        if not elsewhere.isdisjoint(again):
            return False
    return not any(fault.published_at for fault in files.faults)


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
