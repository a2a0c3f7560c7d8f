"""Who may call, and where the HTTP API listens."""

from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, Field

from entrypoints.groups.base import MIB, Group

JWT_ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


def _are_algorithms(text: str) -> str:
    if not set(text.split(",")) <= set(JWT_ALGORITHMS):
        raise ValueError("others")
    return text


class AuthSettings(Group):
    """Who may call the API."""

    tokens_file: Annotated[
        Path | None, Field(description="file of hashed tokens, made by `interlock token create`")
    ] = None
    jwks_url: Annotated[
        str | None,
        Field(
            pattern=r"^(https://[^\s/@]+(/\S*)?|file:///\S+)$",
            description="keys of the issuer of JWTs: https:// or file://",
        ),
    ] = None
    jwt_issuer: Annotated[
        str | None, Field(min_length=1, description="`iss` of JWTs, exactly; needed with jwks_url")
    ] = None
    jwt_audience: Annotated[
        str | None, Field(min_length=1, description="`aud` of JWTs, or one of its values; needed with jwks_url")
    ] = None
    jwt_algorithms: Annotated[
        str,
        AfterValidator(_are_algorithms),
        Field(
            description=f"signatures of JWTs that count, with commas between them; among {', '.join(JWT_ALGORITHMS)}"
        ),
    ] = "RS256,ES256"
    jwt_scopes_claim: Annotated[
        str, Field(min_length=1, description="claim of JWTs with the scopes: a list, or text with spaces between them")
    ] = "scope"
    jwt_scope_prefix: Annotated[str, Field(description="what stands before ingest, view and operate in that claim")] = (
        ""
    )
    jwks_max_age_seconds: Annotated[
        float, Field(ge=20, le=86400, description="seconds after which a key that the issuer took back counts no more")
    ] = 300.0

    @property
    def is_set(self) -> bool:
        """Whether there is anything that tokens are judged by."""
        return self.tokens_file is not None or self.jwks_url is not None


class HttpSettings(Group):
    """The HTTP server."""

    host: Annotated[str, Field(min_length=1, description="address to listen on")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="port, 0-65535; 0 takes a free one")] = 8080
    max_body_bytes: Annotated[
        int, Field(ge=1024, le=1024 * MIB, description="largest request body, in bytes; at least 1024")
    ] = 8 * MIB
