"""TLS: what clients of the router meet, and what the router brings to its engines.

A certificate is exchanged without a restart: each handshake takes the context of the moment (`ServerTls`).
"""

import ssl
from pathlib import Path

from breakeven.config import EngineTrust, Settings
from breakeven.config_sources import ConfigError
from breakeven.watch_files import Fingerprint, fingerprint


class ServerTls:
    """The context that the listening sockets are given once; handshakes are made with the one that was taken last."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self.context = context
        self._current = context
        context.sni_callback = self._choose  # called in every handshake, whether the client names a host or not

    def take(self, context: ssl.SSLContext) -> None:
        """Make handshakes with this one from now on. Whether clients need certificates stays as it was."""
        self._current = context

    def _choose(self, handshake: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> None:
        handshake.context = self._current


def client_context(settings: Settings) -> ssl.SSLContext | None:
    """For clients of the router; None: plain HTTP. ConfigError says which file is wrong, and how."""
    if settings.tls_cert is None or settings.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    _load_pair(context, settings.tls_cert, settings.tls_key, "tls_cert", "tls_key")
    if settings.tls_client_ca is not None:
        _load_authorities(context, settings.tls_client_ca, "tls_client_ca")
        context.verify_mode = ssl.CERT_REQUIRED
        # Who resumes a session shows no certificate, and gets the next one with it: let in once would be for ever.
        context.num_tickets = 0
    return context


def engine_context(trust: EngineTrust) -> ssl.SSLContext:
    """For the engines of a pool: trusted are the authorities of its `ca`, or those of the system."""
    context = ssl.create_default_context() if trust.ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if trust.ca is not None:
        _load_authorities(context, trust.ca, "tls.ca")
    if trust.cert is not None and trust.key is not None:
        _load_pair(context, trust.cert, trust.key, "tls.cert", "tls.key")
    if not trust.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def require_engine_files(settings: Settings) -> None:
    """ConfigError where one of the files by which engines are met cannot be used."""
    for trust in {address.trust for address in settings.addresses() if address.tls}:
        engine_context(trust)


def freshness(trust: EngineTrust) -> tuple[Fingerprint, ...]:
    """Differs where one of its files has changed: then a new context is needed."""
    return tuple(fingerprint(path) for path in (trust.ca, trust.cert, trust.key) if path is not None)


def _load_pair(context: ssl.SSLContext, cert: Path, key: Path, cert_setting: str, key_setting: str) -> None:
    for path, setting in ((cert, cert_setting), (key, key_setting)):
        _require_readable(path, setting)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"{key_setting}: {key}: is not the key of {cert_setting}") from None
        raise ConfigError(f"{cert_setting}: no certificate in {cert}, or no key in {key}, in PEM form") from None
    except ValueError as error:
        raise ConfigError(f"{key_setting}: {key}: {error}") from None


def _load_authorities(context: ssl.SSLContext, path: Path, setting: str) -> None:
    _require_readable(path, setting)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        raise ConfigError(f"{setting}: {path}: no certificates in PEM form in it") from None


def _require_readable(path: Path, setting: str) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise ConfigError(f"{setting}: {path}: cannot read it: {error.strerror or error}") from None


def _no_password() -> str:
    message = "is encrypted; a router that starts by itself cannot ask for a password"
    raise ValueError(message)
