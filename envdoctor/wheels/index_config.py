"""The sources a restore may use: uv's own configuration, completed by pip's, as uv itself then sees it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from envdoctor.errors import UsageError
from envdoctor.facts.answer_memo import AnswerMemo, state_of
from envdoctor.model.frozen import frozen, replace
from envdoctor.model.pattern import pattern
from envdoctor.wheels.impatient import impatient
from envdoctor.wheels.pip_config import PipSettings
from envdoctor.wheels.urls import Access, is_local, local_path, shown
from envdoctor.wheels.uv import Uv, UvError
from envdoctor.wheels.uv_cache import cache_folder
from envdoctor.wheels.uv_config import has_default_index

_TRANSPORT = ("UV_INSECURE_HOST", "SSL_CERT_FILE", "ALL_PROXY")
_DECISIVE = ("UV_", "XDG_", "HOME")
"""Beginnings of the variables that uv's answer about its sources and its cache is made of; PWD and `_` are not."""
_FIND_LINKS = pattern(r"Failed to read `--find-links` (?:directory|file): (.+)\s+(?:cause|Caused by): (.+)")
PLACES = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_FIND_LINKS")


@frozen
class IndexAccess:
    """How one run of uv is told where to look."""

    variables: Mapping[str, str]
    """URLs go here and not into the arguments: one may carry a password, and arguments are public."""
    arguments: tuple[str, ...] = ()


@frozen
class IndexConfig:
    """Every configured source, in the order in which uv asks them."""

    indexes: tuple[str, ...]
    find_links: tuple[str, ...]
    everywhere: IndexAccess
    """All of them, as uv and pip are configured."""
    access: Access
    cache: Path
    """The folder in which uv keeps what it fetched and unpacked."""
    warnings: tuple[str, ...] = ()
    """Configured places that are passed over, and why."""

    def only(self, place: str) -> IndexAccess:
        """Leave uv one source: that index or that find-links place."""
        variables = {name: value for name, value in self.everywhere.variables.items() if name in _TRANSPORT}
        variables |= dict.fromkeys(PLACES, "")
        if place in self.find_links:
            return IndexAccess(variables={**variables, "UV_FIND_LINKS": place}, arguments=("--no-index",))
        # Named as the first and as the default index, so that no other is asked before or after it.
        return IndexAccess(variables={**variables, "UV_INDEX": place, "UV_DEFAULT_INDEX": place})


def configured(uv: Uv, pip: PipSettings, home: Path, python: str, memo: AnswerMemo | None = None) -> IndexConfig:
    """Ask uv which sources it uses once pip's are added to its own. `python` spares it looking for an interpreter.

    memo: what uv answered before to the same settings and variables, which are all that its answer is made of.
    """
    variables, gone = pip_as_uv(uv.environment, pip, uv.cwd, uv.config.settings)
    answer, cache = _asked(uv, variables, python, memo or AnswerMemo())
    told = [line.split(maxsplit=1) for line in answer.splitlines() if line.strip()]
    everywhere = IndexAccess(variables=variables, arguments=("--no-index",) if pip.no_index else ())

    def of(*options: str) -> tuple[str, ...]:
        return tuple(pair[1] for pair in told if len(pair) == 2 and pair[0] in options)

    # uv asks its extra indexes before the default one.
    indexes = () if pip.no_index else (*of("--extra-index-url"), *of("--index-url"))
    certificate = uv.environment.get("SSL_CERT_FILE") or pip.certificate
    access = Access(
        environment=_with_proxies(uv),
        home=home,
        certificate=certificate,
        proxy=pip.proxy,
        insecure_hosts=(
            *variables.get("UV_INSECURE_HOST", uv.environment.get("UV_INSECURE_HOST", "")).split(),
            *uv.config.settings.get("allow-insecure-host", ()),
        ),
    )
    return IndexConfig(
        indexes=indexes,
        find_links=of("--find-links"),
        everywhere=everywhere,
        access=access,
        cache=Path(cache),
        warnings=(
            *(f"pip's find-links place {place} {fault} and is passed over" for place, fault in gone.items()),
            *(f"uv's setting {name} is not followed: it would change what is built" for name in uv.config.ignored),
            *([f"uv's configuration is not read: {uv.config.strange}"] if uv.config.strange else []),
        ),
    )


def _fault(place: str, cwd: Path) -> str:
    """Return why a find-links place of pip's cannot be one; empty where it can."""
    path = cwd / local_path(place)
    if not is_local(place) or os.path.isdir(path) or os.path.isfile(path):  # noqa: PTH112, PTH113
        return ""
    return "is neither a folder nor a page" if os.path.exists(path) else "does not exist"  # noqa: PTH110


def _asked(uv: Uv, variables: Mapping[str, str], python: str, memo: AnswerMemo) -> tuple[str, str]:
    """Return uv's sources as lines of a requirements file, and its cache folder."""
    decisive = [(name, value) for name, value in uv.environment.items() if name.startswith(_DECISIVE)]
    told = (sorted(decisive), uv.config.text(), sorted(variables.items()), str(uv.cwd))
    question = (uv.binary, state_of(uv.binary), told)
    if isinstance(known := memo.get(question), list) and len(known) == 2:
        return str(known[0]), str(known[1])
    asked = ("pip", "compile", "-", "--quiet", "--no-header", "--offline", "--emit-index-url", "--emit-find-links")
    with impatient(1) as beside:
        caching = beside.submit(cache_folder, uv)
        try:
            answer = uv.run((*asked, "--python", python), extra=variables).stdout
        except UvError as error:
            if not (found := _FIND_LINKS.search(error.output)):
                raise
            raise UsageError(
                f"the find-links place {shown(found[1])} cannot be read: {found[2]}",
                "correct where it is named: UV_FIND_LINKS or `find-links` of uv.toml, PIP_FIND_LINKS or pip.conf",
            ) from error
    cache = str(caching.result())
    if "@" not in answer:
        # A login in a URL is not written down.
        memo.put(question, [answer, cache])
    return answer, cache


def _with_proxies(uv: Uv) -> dict[str, str]:
    """Return the environment, with the proxies of uv's configuration where no variable names one."""
    made: dict[str, str] = {}
    for name in ("http-proxy", "https-proxy", "no-proxy"):
        value = uv.config.settings.get(name, "")
        made[name.replace("-", "_")] = ",".join(value) if isinstance(value, list) else str(value)
    told = {name: value for name, value in made.items() if value and not uv.environment.get(name.upper())}
    return {**told, **uv.environment}


def pip_as_uv(
    environment: Mapping[str, str], pip: PipSettings, cwd: Path, settings: Mapping[str, Any]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return pip's settings as uv's variables; and the places that are left out, with what is wrong with each.

    What the user told uv itself wins, by a variable or in a file (`settings`); lists are joined, uv's first.
    """
    # pip passes over what is neither a folder nor a page, uv stops at it.
    # os.path: what another user may not look into is passed over as well, where Path.exists would raise.
    gone = {place: fault for place in pip.find_links if (fault := _fault(place, cwd))}
    pip = replace(pip, find_links=tuple(place for place in pip.find_links if place not in gone))
    made: dict[str, str] = {}
    if pip.index_url and not (
        environment.get("UV_DEFAULT_INDEX") or environment.get("UV_INDEX_URL") or has_default_index(settings)
    ):
        made["UV_DEFAULT_INDEX"] = pip.index_url
    _joined(made, environment, "UV_INDEX", pip.extra_index_urls, " ")
    _joined(made, environment, "UV_FIND_LINKS", pip.find_links, ",")
    _joined(made, environment, "UV_INSECURE_HOST", pip.trusted_hosts, " ")
    if pip.certificate and not environment.get("SSL_CERT_FILE"):
        made["SSL_CERT_FILE"] = pip.certificate
    if pip.proxy:
        made["ALL_PROXY"] = pip.proxy
    return made, gone


def _joined(
    made: dict[str, str], environment: Mapping[str, str], variable: str, added: tuple[str, ...], separator: str
) -> None:
    values = [*environment.get(variable, "").split(separator), *added]
    if added:
        made[variable] = separator.join(dict.fromkeys(value for value in values if value))
