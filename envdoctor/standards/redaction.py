"""What no output, file or log of ours may hold: passwords, tokens and keys, in the forms they take in text.

One redactor for everything that leaves the program. It works on text, JSON included: what it replaces never holds a
quotation mark, so a document stays one.

Sources of the forms: RFC 3986 3.2.1 (userinfo), RFC 6750 and 7617 (Authorization), RFC 7519 (JWT), the signed URLs of
S3, Google Cloud Storage and Azure, and the prefixes that issuers document for their tokens so that scanners find them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

HIDDEN = "****"
"""Stands for what was left out."""
# Whole words of a variable's name: PATH is not a PAT, TOKENIZERS_PARALLELISM no TOKEN.
_CERTAIN = frozenset(
    ("PASS", "PASSWD", "PASSWORD", "PASSPHRASE", "PW", "SECRET", "SECRETS", "KEY", "KEYS", "APIKEY", "AUTH", "PAT",
     "CRED", "CREDS", "CREDENTIAL", "CREDENTIALS", "TOKEN", "TOKENS")
)  # fmt: skip
_PERHAPS = frozenset(("LICENSE", "COOKIE", "SESSION"))
_WORDS_BEFORE = 3
_SHORTEST = 8
"""Letters of a value that is looked for everywhere: a shorter one is a part of too much."""

# In JSON `\"` and `\n` end a value, `\u00e9` and `\\` do not. What stands before a sign that must follow is bounded:
# the text may be anybody's, and must not decide how long this takes.
_VALUE = r"(?:[^\s\"'\\&,;#<>)\]}`]|\\(?!\\{0,9}[\"'])(?:[^nrt\\]|\\(?!\\{0,9}[\"'])))+"
_OPEN = r"(?:\\{0,9}[\"'])?"
# Where a word begins: JSON writes a line break in front of one as `\n`, and its letters are no part of the word.
_ESCAPED = r"(?<=\\[nrtbf])|(?<=\\u[0-9a-f]{4})"
_BEGINS = rf"(?:(?<![A-Za-z0-9])|{_ESCAPED})"
_LOGIN = r"(?:[^\s\"'\\<>/?#]|\\u[0-9a-f]{4}){0,512}"
_WORDS = (
    r"pass(?:wd|word|phrase)?|pw|pwd|secret|api[_-]?key|access[_-]?key(?:[_-]?id)?|secret[_-]?key|private[_-]?key|"
    r"(?:access|auth)?token|credentials?|auth[_-]?key|client[_-]?secret"
)
# What is said of a secret instead of one: `X_AUTH=required`, `pass: 3`, `token: none`, `password: str`. It must be all
# of the value: `no-Xy7…` is none of them.
_SAID = ("none|null|nil|true|false|yes|no|on|off|ok|unset|empty|missing|required|optional|enabled|disabled|auto|basic|"
         "bearer|digest|value|str|int|bool|float|bytes")  # fmt: skip
_PLAIN = (rf"(?!(?i:{_SAID}|\d{{1,3}}(?:/\d{{1,3}})?)"
          r"(?:[\s\"',;)\]}&<>]|\\[nrt\"']|[.:](?:[\s\"',;)]|\Z)|\Z))")  # fmt: skip
# Tokens of a tokenizer; and files of such a name: `/etc/passwd: leads out`.
_NO_KEY = "".join(
    rf"(?!(?<=(?i:{word}[_-]))(?i:token))"
    for word in ("mask", "pad", "eos", "bos", "unk", "sep", "cls", "image", "stop")
)
_NO_FILE = rf"(?!(?<=/)(?:{_WORDS})\s{{0,9}}:\s)"
# `libc.so.6:memcpy@GLIBC_2.14` names a version of a symbol, and no host is called so; nor is one a number.
_ENDS = r"(?![\w/-]|:\d|\.\w)"
_HOST = rf"(?=@(?!sha(?:256|512)\b)(?!\d+(?:\.\d+){{0,2}}{_ENDS})(?![A-Z][A-Z0-9]*_[\w.]+{_ENDS})[\w\[])"
_OBJECT = (r"(?![\w.+-]{0,99}\.so(?:\.[\w.]{0,30})?:[^\s@]{1,512}"
           rf"@(?:\w{{1,99}}|[A-Za-z]\w*_[\w.]{{1,99}}|lib[\w.-]{{1,99}}){_ENDS})")  # fmt: skip
# A path may hold the one slash that a URL keeps when it was taken for a path: `/a:/b@2` is none.
_KNOWN = r"(?i:https?|ftps?|socks\w{0,3}|git\+\w{2,8}|s3|gs|az|wss?|redis|postgres\w{0,4}|mysql|mongodb|amqps?|hf)"
_HINTS = ("pass", "pw", "secret", "key", "token", "credential")
_UPPER = "|".join(sorted(_CERTAIN, key=len, reverse=True))
_PREFIXES = {
    "hf_": r"hf_[A-Za-z0-9]{16,}", "gh": r"gh[pousr]_[A-Za-z0-9]{16,}", "github_pat_": r"github_pat_\w{16,}",
    "gl": r"gl[a-z]{2,6}-[\w-]{16,}", "akia": r"AKIA[A-Z0-9]{12,}", "asia": r"ASIA[A-Z0-9]{12,}",
    "xox": r"xox[a-z]-[\w-]{10,}", "pypi-": r"pypi-[\w-]{16,}", "npm_": r"npm_\w{16,}", "aiza": r"AIza[\w-]{30,}",
    "ya29.": r"ya29\.[\w.-]{10,}", "dckr_pat_": r"dckr_pat_[\w-]{16,}", "dapi": r"dapi[0-9a-f]{32}",
    "nvapi-": r"nvapi-[\w-]{16,}", "r8_": r"r8_\w{16,}", "sg.": r"SG\.[\w-]{16,99}\.[\w-]{16,}",
    "sk-": r"sk-(?=[\w-]{0,99}\d)[\w-]{20,}", "tk-": r"tk-[0-9a-f-]{30,}", "wandb_v": r"wandb_v\d_\w{16,}",
    "eyj": r"eyJ[\w-]{8,400}\.[\w-]{8,4000}(?:\.[\w-]*)?",
}  # fmt: skip

# What a text in lower case must hold for a rule to be tried; its pattern, in lines; what of it is kept in front of
# HIDDEN. Most texts hold none of it, and compiling every pattern would cost more than the start of a check.
_RULES: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("private key-----",), (r"(?s)-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----"
     r".*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|(?=\")|\Z)"), ""),
    # user:password@, :password@ and token@ of a URL, taken for a path or not. Of ssh the user (git) is no secret.
    (("@",), (rf"(?:(?<![A-Za-z0-9_+.-])|{_ESCAPED})((?!(?:git\+)?ssh:)(?:[A-Za-z][\w+.-]{{0,30}}:/|{_KNOWN}:)/)"
     rf"(?!\*\*\*\*@){_LOGIN}(?=@)"), r"\1"),
    (("ssh:/",), rf"(ssh:/{{1,2}}[^\s\"'\\<>/?#:@]{{0,99}}:){_LOGIN}(?=@)", r"\1"),
    # The same without a scheme, as proxies are named; `image:tag@sha256:…` names a content.
    (("@",), (rf"(?:(?<![\w/@.:*+~%$\\-])|{_ESCAPED})"
     rf"{_OBJECT}[\w.%+~$-]{{0,99}}:[^\s\"'\\<>/?#@:]{{1,512}}{_HOST}"), ""),
    # A login or a signature in a query.
    (("?", "&", "#", ";"), (rf"(?i)([?&#;](?:[\w%~.-]{{0,99}}[_.-])?"
     rf"(?:{_WORDS}|key|auth|authorization|sig|signature|code|jwt)=)(?:[^\s\"'\\&#<>;]|\\u[0-9a-f]{{4}})+"), r"\1"),
    # A token that is a folder of a URL: /t/TOKEN/
    (("/t/",), r"(https?:/{1,2}[^\s\"'\\<>]{1,200}?/t/)[\w-]{6,}(?=/)", r"\1"),
    (("authorization",), (rf"(?i)(?:\b|{_ESCAPED})((?:proxy-)?authorization\\?[\"']?\s{{0,9}}[:=]\s{{0,9}}{_OPEN}"
     rf"(?:(?:basic|bearer|token|digest|negotiate)\s{{1,9}})?){_VALUE}"), r"\1"),
    (("bearer ", "basic "), (rf"(?i)(?:\b|{_ESCAPED})((?:bearer|basic)\s{{1,9}})"
     r"(?=[A-Za-z+/.=~_-]{0,99}\d)[\w+/.=~-]{12,}"), r"\1"),
    (("login",), rf"(?:\b|{_ESCAPED})(login\s{{1,9}}\S{{1,99}}\s{{1,9}}password\s{{1,9}}){_VALUE}", r"\1"),
    # --wandb-key=V, --hf-token V
    ((*_HINTS, "auth", "pat", "cred"), (rf"(?i)(?:(?<![A-Za-z0-9_-])|{_ESCAPED})(--?(?:[a-z0-9]{{1,30}}[_.-]){{0,6}}"
     rf"{_NO_KEY}(?:{_WORDS}|key|auth|pat|cred)(?:=|\s{{1,9}}(?!-)){_OPEN}){_PLAIN}{_VALUE}"), r"\1"),
    # password = V, "api_key": "V", os.environ["X_TOKEN"] = "V"
    (_HINTS, (rf"(?i){_BEGINS}{_NO_KEY}{_NO_FILE}((?:{_WORDS})\\{{0,9}}[\"']?\]?\s{{0,9}}(?:=(?!=)|:(?!:))"
     rf"\s{{0,9}}{_OPEN})(?!\*\*\*\*)(?![\[{{(]){_PLAIN}{_VALUE}"), r"\1"),
    # WANDB_API_KEY=V as a shell has it.
    (("=",), (rf"{_BEGINS}{_NO_KEY}((?:{_UPPER})(?:_[A-Z0-9]{{1,30}}){{0,6}}\s{{0,9}}=\s{{0,9}}{_OPEN})"
     rf"{_PLAIN}{_VALUE}"), r"\1"),
    (tuple(_PREFIXES), rf"{_BEGINS}(?:{'|'.join(_PREFIXES.values())})", ""),
)  # fmt: skip

_OF_THE_FIELD = frozenset(
    ("root", "user", "users", "host", "localhost", "home", "torch", "triton", "python", "nvidia", "cuda", "conda",
     "venv", "lib", "usr", "bin", "tmp", "data", "work", "worker", "node", "gpu", "main", "dev", "test", "admin")
)  # fmt: skip
# In a URL that says where something came from, a folder of 20 mixed letters and digits may be a token, too.
_FOLDER = r"(?<=/)(?=[a-z0-9]{0,99}[A-Z])(?=[A-Z0-9]{0,99}[a-z])(?=[A-Za-z]{0,99}\d)[A-Za-z0-9]{20,}(?=/)"

# Where a whole place is left out for it: also 16 letters and digits, a UUID, and base64 with both cases.
_OPAQUE = (r"(?<=/)(?:(?=[A-Za-z]{1,99}\d|\d{1,99}[A-Za-z])[A-Za-z0-9]{16,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
          r"|(?=[^/]{0,99}[A-Z])(?=[^/]{0,99}[a-z])(?=[^/]{0,99}\d)[\w-]{16,})(?=[/#]|\Z)")  # fmt: skip


def secret_name(name: str) -> bool:
    """Tell whether a variable's name says that its value is a secret, or may be."""
    words = name.upper().split("_")
    return not (_CERTAIN.isdisjoint(words) and _PERHAPS.isdisjoint(words))


def secrets_of(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values of the variables that hold a secret, the longest first: wherever they turn up, they go.

    A path is not one (the file that it names is), nor what is too short to be told from other text.
    """
    found = {
        value
        for name, value in environ.items()
        if len(value) >= _SHORTEST
        and not value.startswith(("/", "~", "."))
        and not _CERTAIN.isdisjoint(name.upper().split("_"))
        and not _compiled(rf"(?i:{_SAID})\Z").match(value)
    }
    return tuple(sorted(found, key=lambda value: (-len(value), value)))


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """Return the text without what is a secret by its form, and without the `secrets`, which are known ones.

    A text without any comes back as it is.
    """
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, HIDDEN)
    lower = text.lower()
    for hints, pattern, kept in _RULES:
        if any(hint in lower for hint in hints):
            text = _compiled(pattern).sub(kept + HIDDEN, text)
    return text


def holds_secret(text: str) -> bool:
    """Tell whether a text holds what is a secret by its form."""
    return redacted(text) != text


def redacted_words(words: Sequence[str], secrets: Iterable[str] = ()) -> tuple[str, ...]:
    """Return a command's words without secrets, also where those before a word say what it is."""
    known, shown = tuple(secrets), []
    for at, word in enumerate(words):
        clean = redacted(word, known)
        before = " ".join(words[max(0, at - _WORDS_BEFORE) : at])
        if clean == word and not redacted(f"{before} {word}").endswith(f" {word}"):
            clean = HIDDEN
        shown.append(clean)
    return tuple(shown)


def bare_url(url: str) -> str:
    """Return a URL without its login, as PEP 610 wants it kept, and with its tokens hidden; a path as it is."""
    if url.startswith("file:"):
        return url
    return _compiled(_FOLDER).sub(HIDDEN, redacted(url).replace(f"{HIDDEN}@", ""))


def secret_place(place: str, secrets: Iterable[str] = ()) -> bool:
    """Tell whether a place of wheels holds a secret, or what may be one: a login, a query, a token for a folder."""
    known = tuple(secrets)
    if redacted(place, known) != place:
        return True
    _, scheme, rest = place.partition("://")
    if not scheme or place.startswith("file:"):
        return False
    host, _, path = rest.partition("/")
    return "@" in host or "?" in rest or _compiled(_OPAQUE).search(f"/{path}") is not None


def anonymous(text: str, home: str, user: str, hosts: Iterable[str]) -> str:
    """Return a text for strangers: without the names of the user, of anybody's home folder and of the host.

    A name that is a word of the field too (`torch`, `root`) tells nothing, and stays outside of home folders.
    """
    if home.strip("/"):
        text = re.sub(rf"(?:(?<![\w./-])|(?<=file://)){re.escape(home.rstrip('/'))}(?![\w.-])", "/home/user", text)
    text = re.sub(r"(?<![\w.-])(/(?:home|Users)/)[^/\s\"'\\:;,()]+", r"\1user", text)
    names = {user: "user", **{name: "host" for host in hosts for name in (host, host.partition(".")[0])}}
    for name in sorted(names, key=len, reverse=True):
        if len(name) > 1 and name.lower() not in _OF_THE_FIELD:
            text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", names[name], text)
    return text


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
