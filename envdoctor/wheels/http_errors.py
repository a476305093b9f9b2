"""What went wrong between here and a host, in one sentence that names it."""

import re
from collections.abc import Callable
from http.client import IncompleteRead

from urllib3.exceptions import (
    ConnectTimeoutError,
    NameResolutionError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from envdoctor.wheels.transport import CONNECT_TIMEOUT, read_timeout
from envdoctor.wheels.urls import Access, IndexUnreadableError, bare_host, shown


class TransientError(IndexUnreadableError):
    """Another try may help: the host did not answer, broke off, or said that it cannot answer now."""

    def __init__(self, reason: str, *, answered: bool = False, wait: float = 0.0) -> None:
        """Keep how many seconds the server asks to wait."""
        super().__init__(reason, answered=answered, transient=True)
        self.wait = wait


def explained(url: str, error: BaseException, access: Access) -> IndexUnreadableError:
    """Return the error for one of urllib3's or of the system's."""
    if isinstance(error, SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        why = re.search(r"certificate verify failed: ([^()]+)", str(error))
        return IndexUnreadableError(
            f"{bare_host(url)} has a certificate that is not trusted here ({(why[1] if why else str(error)).strip()}); "
            "SSL_CERT_FILE, or pip's `cert`, names the CA that signed it"
        )
    if isinstance(error, ProxyError) and "Tunnel connection failed" in str(error.original_error):
        return IndexUnreadableError(f"{shown(url)}: the proxy refused it ({_plain(error.original_error)})")
    told = next((told for kind, told in _SENTENCES if isinstance(error, kind)), _broken_off)
    return TransientError(told(url, error, access))


def _proxy(url: str, error: BaseException, _: Access) -> str:
    return f"{shown(url)}: the proxy did not answer ({_plain(error)})"


def _name(url: str, error: BaseException, _: Access) -> str:
    return f"{bare_host(url)} did not answer: its name could not be resolved ({_plain(error)})"


def _no_connection(url: str, _: BaseException, access: Access) -> str:
    del access
    return f"{bare_host(url)} did not answer: no connection within {CONNECT_TIMEOUT:g} s"


def _nothing_came(url: str, _: BaseException, access: Access) -> str:
    return f"{bare_host(url)} did not answer: nothing came for {read_timeout(access):g} s"


def _not_reached(url: str, error: BaseException, _: Access) -> str:
    return f"{bare_host(url)} did not answer: {_plain(error)}"


def _broken_off(url: str, error: BaseException, _: Access) -> str:
    return f"{shown(url)}: the connection broke off ({_plain(error)})"


# From the special to the general: the first that fits speaks.
_SENTENCES: tuple[tuple[type[BaseException], Callable[[str, BaseException, Access], str]], ...] = (
    (ProxyError, _proxy),
    (NameResolutionError, _name),
    (NewConnectionError, _not_reached),
    (ConnectTimeoutError, _no_connection),
    (ReadTimeoutError, _nothing_came),
)


def _plain(error: BaseException) -> str:
    """Return the innermost text of an error: urllib3 wraps what the system said."""
    inner: BaseException | None = error
    while inner is not None:
        error = inner
        inner = error.__cause__ or next((one for one in error.args if isinstance(one, BaseException)), None)
    if isinstance(error, IncompleteRead):
        came = error.partial if isinstance(error.partial, int) else len(error.partial)
        return f"{came} of {came + (error.expected or 0)} bytes came"
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error) or type(error).__name__
