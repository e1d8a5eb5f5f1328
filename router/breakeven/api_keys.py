"""The keys that clients of this router must carry, where any are configured: who may come in, under which name.

A presented token is hashed, and its digest compared with the digest of every key, each in constant time and without an
early exit: how long a refusal takes says nothing about any key, nor how long a key is. Who was judged once is known by
the head that said so (`headers.Headers.holder`), so that the next request with the same head costs an identity test.
Names, never keys, may be shown.
"""

import re
from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from breakeven.errors import invalid_api_key
from breakeven.headers import Headers

OPEN_PATHS = frozenset((b"/health", b"/ready"))
"""What balancers and Kubernetes ask without a key."""

CARRIERS = (b"authorization", b"x-api-key")
"""Where a key may be: as OpenAI's clients send it, and as Anthropic's do."""

_match_bearer = re.compile(rb"bearer +(.*)", re.IGNORECASE | re.DOTALL).fullmatch


class ApiKeys:
    """The keys in force, by name. Other keys are another object, which knows nothing of what was judged before."""

    __slots__ = ("_digests",)

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._digests = tuple((name, sha256(key.encode()).digest()) for name, key in keys.items())

    def admit(self, method: bytes, path: bytes, headers: Headers) -> str | None:
        """The name of the key that a request carries, None where it needs none. ApiError (401): no known key."""
        if path in OPEN_PATHS or method == b"OPTIONS":  # browsers send no key with a preflight, and it is not forwarded
            return None
        name = self.holder(headers)
        if name is None:
            raise invalid_api_key()
        return name

    def holder(self, headers: Headers) -> str | None:
        """The name of the key that these headers carry; None: they carry none that is known."""
        known = headers.holder
        if known is not None and known[0] is self:
            return known[1]
        name = self._holder(headers)
        headers.holder = (self, name)
        return name

    def _holder(self, headers: Headers) -> str | None:
        """Any carrier will do, but one that is there twice is nobody's: another reader might take the other one."""
        found = None
        for carrier in CARRIERS:
            values = [value for name, value in headers.pairs if name == carrier]
            if len(values) > 1:
                return None
            for value in values:
                found = self._name_of(_token(carrier, value)) or found
        return found

    def _name_of(self, token: bytes) -> str | None:
        digest = sha256(token).digest()
        found = None
        for name, known in self._digests:
            if compare_digest(digest, known):
                found = name
        return found


def _token(carrier: bytes, value: bytes) -> bytes:
    """The token of a header's value; empty, which is no key, where it is of another scheme."""
    if carrier == b"x-api-key":
        return value
    bearer = _match_bearer(value)
    return b"" if bearer is None else bytes(bearer[1])
