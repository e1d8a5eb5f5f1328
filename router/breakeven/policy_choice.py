"""Which policy decides a single request, where its client may say so: by a header, or by the alias it calls the model.

Both are off unless configured, and only policies that the configuration lists can be named. Who may come in at all
(`api_keys`) may name them: the list is what the operator leaves to clients. The header wins over the alias.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from breakeven.errors import invalid_request, shown
from breakeven_policies.policy import Policy


@dataclass(frozen=True, slots=True)
class PolicyChoice:
    """`header` in lower case; `policies` by the value that names them, `by_alias` by the alias of a model."""

    header: bytes = b""
    policies: Mapping[bytes, Policy] = field(default_factory=dict)
    by_alias: Mapping[str, Policy] = field(default_factory=dict)

    def of(self, headers: Mapping[bytes, bytes], alias: str | None) -> Policy | None:
        """The policy that was asked for; None: none was. ApiError: it may not be."""
        named = headers.get(self.header)
        if named is None:
            return None if alias is None else self.by_alias.get(alias)
        policy = self.policies.get(named.strip())
        if policy is None:
            header, known = self.header.decode(), b", ".join(self.policies).decode()
            message = f"{header} names {shown(named.decode('latin-1'))}, which no request may ask for; it may: {known}."
            raise invalid_request(message, code="unknown_policy", param=header)
        return policy
