"""Addresses and foreign texts as they may be shown and stored: without what can be a secret in them.

A user and password before the host, a query and a fragment (signatures, keys, tokens) are never shown. What a server sent back is only
repeated where it is a short sentence: a body may reflect the request's own headers. Pure; no address is looked up here.
"""

from __future__ import annotations

import hashlib
import re

ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>[^\s\"'<>]*)")
HOST = re.compile(r"[A-Za-z0-9._~%-]*|\[[0-9A-Fa-f:.%]+\]")
HIDDEN = "…"
LONGEST_SAID = 300
"""Characters of a foreign message."""

NAMES = r"authorization|proxy-authorization|cookie|set-cookie|x-api-key|x-auth-token|x-amz-[a-z-]+|aws[_-]?(?:secret[_-]?access[_-]?key|access[_-]?key[_-]?id|session[_-]?token)|signature|credential|signedheaders|password|passwd|secret|token"
NAMED_SECRET = re.compile(rf"(?i)[\"']?\b(?P<name>{NAMES})\b[\"']?\s*[:=]\s*[\"']?(?:(?:AWS4-HMAC-SHA256|bearer|basic)\s+)?[^\s,;&\"']+")  # fmt: skip
SCHEME_SECRET = re.compile(r"(?i)\b(?P<name>AWS4-HMAC-SHA256|bearer|basic)\s+[A-Za-z0-9+/=._~-]{6,}(?:[^\s,;]*)")
ACCESS_KEY = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")
USER_ENDS = re.compile(rf"(?<!://{HIDDEN})@")
"""An @ that does not follow what was masked already: a password with a blank or a quote may end here."""
PORT_CAST = re.compile(r"(?i)(port could not be cast to integer value as) .*", re.DOTALL)
"""urllib's words for a port that is none, which is the beginning of a password with a slash in it."""
REQUEST_QUERY = re.compile(r"((?:^|\s)/[^\s?]*)\?\S+")
HEADER_LINE = re.compile(r"\s*[A-Za-z][A-Za-z0-9_-]*\s*:(?!//).*")


def masked(text: str) -> str:
    """Return a text whose addresses have no user, password, query or fragment: "http://…@host:1/path?…" for "http://u:p@host:1/path?k=v".

    Where it cannot be told what is user and what is host (an unquoted sign in a password), nothing but the scheme is left; where it
    cannot be told where the address ends (a blank or a quote in it, with an @ anywhere behind), nothing of the text behind it either.
    """
    text = PORT_CAST.sub(rf"\1 {HIDDEN}", text)
    kept, at = [], 0
    for found in ADDRESS.finditer(text):
        kept.append(text[at : found.start()])
        at, behind = found.end(), text[found.end() :]
        if USER_ENDS.search(behind):
            return f"{''.join(kept)}{found['scheme']}://{HIDDEN}"
        plain = _plain(found)
        kept.append(plain)
        if behind and _goes_on(text[: found.start()][-1:], plain, behind):
            return "".join(kept)
    return "".join(kept) + text[at:]


def _goes_on(before: str, plain: str, behind: str) -> bool:
    """Return whether what was hidden at an address's end may go on behind the blank or quote that seems to end it."""
    if not plain.endswith(HIDDEN):
        return False
    if not plain.endswith(f"?{HIDDEN}"):
        return plain.endswith(f":{HIDDEN}")
    return (before in {'"', "'", "<"} and behind[0] != before.replace("<", ">")) or bool(
        re.match(r"[\"'<>]+\w", behind)
    )


def _plain(found: re.Match[str]) -> str:
    scheme, rest = found["scheme"], found["rest"]
    place = re.split(r"[?#]", rest, maxsplit=1)[0]
    authority, slash, path = place.partition("/")
    user, at, host = authority.rpartition("@")
    if "@" in path or "@" in rest[len(place) :] or "@" in user:
        return f"{scheme}://{HIDDEN}"
    name = re.sub(r":\d+$", "", host.rstrip(".,;:)"))
    if at and not HOST.fullmatch(name):
        return f"{scheme}://{HIDDEN}"
    if not at and re.search(r":(?!\d*[.,;:)]*$)", host.partition("]")[2] or ("" if host.startswith("[") else host)):
        host = f"{host.partition(':')[0]}:{HIDDEN}"  # no port: it may be a password with a sign that ends it
    query = f"?{HIDDEN}" if len(place) < len(rest) else ""
    return f"{scheme}://{f'{HIDDEN}@' if at else ''}{host}{slash}{path}{query}"


def host_of(address: str) -> str:
    """Return scheme and host of an address whose path may be a secret too: "https://hooks.example"; no user, port kept."""
    found = ADDRESS.fullmatch(masked(address))
    if found is None:
        return HIDDEN
    return f"{found['scheme']}://{re.split('[/?#]', found['rest'], maxsplit=1)[0]}"


def holds_user(address: str) -> bool:
    """Return whether an address states a user or a password, or may do so."""
    return "@" in address


def marked(address: str) -> str:
    """Return what stands for an address where it is stored: itself where it holds no secret, else masked with a hash of the whole."""
    plain = masked(address)
    return plain if plain == address else f"{plain} {hashlib.sha256(address.encode()).hexdigest()[:16]}"


def told(text: str) -> str:
    """Return a foreign text on one short line: addresses masked, lines that look like headers left out, named secrets hidden."""
    lines = text.splitlines()
    kept = [line for line in lines if not HEADER_LINE.fullmatch(line)] if len(lines) > 1 else lines
    line = " ".join(" ".join(kept).split())
    return without_secrets(line)[:LONGEST_SAID]


def without_secrets(line: str) -> str:
    """Return a line whose addresses are masked, and in which what follows the name of a secret is hidden."""
    line = REQUEST_QUERY.sub(rf"\1?{HIDDEN}", masked(line))
    for pattern in (NAMED_SECRET, SCHEME_SECRET):
        line = pattern.sub(lambda found: f"{found['name']} {HIDDEN}", line)
    return ACCESS_KEY.sub(HIDDEN, line)
