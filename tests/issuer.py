"""An issuer of JWTs on this machine: keys, key sets, tokens, and an HTTPS address to fetch the keys from."""

import base64
import datetime as dt
import ipaddress
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from tests.examples import START

ISSUER = "https://id.example/"
AUDIENCE = "interlock"

RSA_KEYS = [rsa.generate_private_key(65537, 2048) for _ in range(2)]
EC_KEY = ec.generate_private_key(ec.SECP256R1())


def rsa_jwk(number: int = 0, **more: Any) -> dict[str, Any]:
    """Give the public half of an RSA key; `...` leaves a member out."""
    public = RSAAlgorithm.to_jwk(RSA_KEYS[number].public_key(), as_dict=True)
    made = {**public, "kid": f"rsa-{number}", "alg": "RS256", "use": "sig", **more}
    return {name: value for name, value in made.items() if value is not ... and name != "key_ops"}


def ec_jwk() -> dict[str, Any]:
    """Give the public half of the elliptic key."""
    return {**ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True), "kid": "ec"}


def key_set(*keys: dict[str, Any]) -> bytes:
    """Write a key set."""
    return json.dumps({"keys": keys}).encode()


def a_token(
    key: Any = RSA_KEYS[0],
    algorithm: str = "RS256",
    *,
    kid: str | None = "rsa-0",
    header: dict[str, Any] | None = None,
    **changes: Any,
) -> str:
    """Issue a token that is good for five minutes from `START`; `changes` are made to its claims."""
    at = int(START.timestamp())
    good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": at + 300, "scope": "ingest view"}
    claims = {name: value for name, value in {**good, **changes}.items() if value is not ...}
    named = {} if kid is None else {"kid": kid}
    return jwt.encode(claims, key, algorithm, headers={**named, **(header or {})})


def by_hand(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    """Write a token that no library would."""
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


@dataclass
class Issuer:
    """An HTTPS server.

    Attributes:
        keys: the body of its answers.
        status: of its answers, with headers.
        requests: how many there were.
        delay: seconds before an answer.
    """

    url: str = ""
    keys: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    requests: int = 0
    delay: float = 0


@contextmanager
def an_issuer(folder: Path, trust: Callable[[str, str], None]) -> Iterator[Issuer]:
    """Serve key sets over HTTPS on loopback.

    Args:
        folder: where its certificate is written.
        trust: sets an environment variable: the certificate that Python's TLS trusts.
    """
    issuer = Issuer(keys=key_set(rsa_jwk()))

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.requests += 1
            time.sleep(issuer.delay)
            self.send_response(issuer.status)
            for name, value in issuer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(issuer.keys)))
            self.end_headers()
            self.wfile.write(issuer.keys)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            """Keep quiet."""

    certificate = folder / "issuer.pem"
    _write_certificate(certificate)
    trust("SSL_CERT_FILE", str(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    issuer.url = f"https://127.0.0.1:{server.server_port}/keys"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _write_certificate(path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
