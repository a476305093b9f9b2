"""How a host is reached as the user configured it: proxies, certificates, logins, time limits. Asks nothing itself."""

import netrc
import ssl
from functools import cache
from ipaddress import ip_address, ip_network
from urllib.parse import unquote, urlsplit

import urllib3
from urllib3.exceptions import InsecureRequestWarning

from envdoctor.wheels.urls import Access, IndexUnreadableError, bare_host, shown

CONNECT_TIMEOUT = 10.0
_READ_TIMEOUT = 30.0  # uv's own


def read_timeout(access: Access) -> float:
    """Return the seconds without a byte after which a host is taken as not answering; uv's variables set it."""
    for name in ("UV_HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT", "HTTP_TIMEOUT"):
        if (told := access.environment.get(name, "")).isdecimal() and int(told):
            return float(told)
    return _READ_TIMEOUT


def proxy_for(url: str, access: Access) -> str:
    """Return the proxy that a URL is asked through; empty for none. Raises IndexUnreadableError for one of SOCKS."""
    parts = urlsplit(url)
    environment = access.environment
    bypass = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
    names = (f"{parts.scheme}_proxy", f"{parts.scheme.upper()}_PROXY", "all_proxy", "ALL_PROXY")
    found = access.proxy or next((environment[name] for name in names if environment.get(name)), "")
    if not found or _bypassed(parts.hostname or "", bypass):
        return ""
    proxy = found if "://" in found else f"http://{found}"
    if urlsplit(proxy).scheme not in ("http", "https"):
        raise IndexUnreadableError(f"{shown(url)}: only uv can ask it through the proxy {shown(proxy)}")
    return proxy


def _bypassed(host: str, told: str) -> bool:
    """Tell whether no_proxy names a host: itself, a domain above it, a network of its address, or "*"."""
    for item in (part.strip().lower() for part in told.split(",")):
        name = item.rpartition(":")[0] if item.rpartition(":")[2].isdecimal() and item.count(":") == 1 else item
        domain = name.lstrip("*").lstrip(".")
        if name == "*" or (domain and (host == domain or host.endswith(f".{domain}"))):
            return True
        try:
            if "/" in name and ip_address(host) in ip_network(name, strict=False):
                return True
        except ValueError:
            continue  # a name, or not a network
    return False


def insecure(url: str, access: Access) -> bool:
    """Tell whether the user trusts this host without a certificate (pip's trusted-host, uv's allow-insecure-host)."""
    parts = urlsplit(url)
    there = {parts.hostname, bare_host(url), f"{parts.scheme}://{bare_host(url)}"}
    return parts.scheme == "https" and any(host in there or host == "*" for host in access.insecure_hosts)


def certificates(access: Access, *, verify: bool) -> ssl.SSLContext:
    """Return the context of connections. Raises IndexUnreadableError for a certificate file that cannot be read."""
    if not verify:
        urllib3.disable_warnings(InsecureRequestWarning)
    # Reading the system's certificates takes 30 ms: once, not for every page.
    return _certificates(access.certificate, access.environment.get("SSL_CLIENT_CERT", ""), verify=verify)


@cache
def _certificates(trusted: str, own: str, *, verify: bool) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=trusted or None)
        if own:
            context.load_cert_chain(own)
    except OSError as error:
        raise IndexUnreadableError(
            f"the certificates of {trusted or 'this system'}{f' and {own}' if own else ''} cannot be read: {error}"
        ) from error
    if not verify:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def login(url: str, access: Access) -> tuple[str, str] | None:
    """Return the user and the password for a URL: written into it, else from netrc; None for none."""
    parts = urlsplit(url)
    if parts.username:
        return unquote(parts.username), unquote(parts.password or "")
    stored = _netrc(access.environment.get("NETRC") or str(access.home / ".netrc"))
    found = stored.authenticators(parts.hostname or "") if stored else None
    return (found[0], found[2]) if found and found[2] else None


@cache
def _netrc(path: str) -> netrc.netrc | None:
    try:
        return netrc.netrc(path)
    except (OSError, netrc.NetrcParseError):
        return None
