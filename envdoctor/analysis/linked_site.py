"""A site-packages that is a link out of the environment: where a reinstall would put scripts, and what helps."""

import shlex
from collections.abc import Collection

from envdoctor.analysis.context import CheckContext
from envdoctor.probes.venv.distributions import Distributions
from envdoctor.probes.venv.installed_files import InstalledFiles


def folder_again(case: CheckContext, names: Collection[str]) -> str:
    """Return the shell words, ending in ` && `, that make a linked site-packages (or lib) a folder again; or nothing.

    uv writes a script to `../../../bin` of site-packages, which the kernel resolves from where the link leads: the
    installation fails there, or ends in somebody else's folder. Needed only for what has scripts by its RECORD, or may
    have some because RECORD is gone or empty. The folder behind the link stays as it is.
    """
    files, installed = case.facts.get(InstalledFiles), case.facts.get(Distributions)
    links = [link for owner, link in files.links_out if not owner] if files else []
    if files is None or installed is None or not links:
        return ""
    unknown = {item.name for item in installed.items if not item.has_record}
    unknown |= {owner.name for owner in files.owners if not owner.files}
    scripted = {owner for owner, _ in files.outside} | unknown
    if scripted.isdisjoint(names):
        return ""
    paths = [f"{case.facts.target}/{link}" for link in links]
    return "".join(
        f"cp -aT {shlex.quote(f'{path}/.')} {shlex.quote(f'{path}.folder')} && rm {shlex.quote(path)} && "
        f"mv -T {shlex.quote(f'{path}.folder')} {shlex.quote(path)} && "
        for path in paths
    )
