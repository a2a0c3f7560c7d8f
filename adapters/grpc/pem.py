"""PEM files that settings name, read and tried before gRPC sees them: it would tell of them in lines of its own."""

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from adapters.file.regular import read_setting
from domain.errors import Misconfigured

_NO_PASSWORD: Final = ""


class Pair(NamedTuple):
    """A certificate and its key, as PEM."""

    certificate: bytes
    key: bytes


class Tls(NamedTuple):
    """PEM texts: what the service's certificate is checked by, and our own certificate and key where it wants one."""

    ca: bytes
    certificate: bytes | None = None
    key: bytes | None = None


def read_tls(ca: Path | None, certificate: Path | None, key: Path | None, setting: Callable[[str], str]) -> Tls | None:
    """Read what a caller needs for TLS; None speaks plain text.

    Args:
        ca: what the service's certificate is checked by.
        certificate: our own.
        key: of our certificate.
        setting: the name of a setting: of `ca_file`, `certificate_file` and `key_file`.

    Raises:
        Misconfigured: a file is missing, cannot be read, or holds something else.
    """
    pair = read_pair(certificate, key, setting)
    if ca is None:
        if pair is not None:
            raise Misconfigured(setting("ca_file"), "is not set; TLS needs it to check the service by")
        return None
    return Tls(read_certificates(ca, setting("ca_file")), *(pair or ()))


def read_pair(certificate: Path | None, key: Path | None, setting: Callable[[str], str]) -> Pair | None:
    """Read a certificate and its key; None where neither is set. Arguments and errors are those of `read_tls`."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        name = "certificate_file" if certificate is None else "key_file"
        raise Misconfigured(setting(name), "is not set; TLS needs both the certificate and its key")
    pair = Pair(
        read_certificates(certificate, setting("certificate_file")), read_setting(key, setting("key_file"), bytes)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")  # how strong a key must be is for gRPC to say
    try:
        # Without a password to give, Python would ask for one on the terminal; gRPC takes no locked keys.
        context.load_cert_chain(certificate, key, password=_NO_PASSWORD)
    except (ssl.SSLError, ValueError):
        reason = f"{key} is no key in PEM, is locked, or does not fit the certificate {certificate}"
        raise Misconfigured(setting("key_file"), reason) from None
    return pair


def read_certificates(path: Path, setting: str) -> bytes:
    """Read certificates.

    Raises:
        Misconfigured: the file cannot be read, or holds none.
    """
    text = read_setting(path, setting, bytes)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError:
        raise Misconfigured(setting, f"{path} holds no certificate in PEM") from None
    return text
