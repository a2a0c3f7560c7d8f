"""The judge of bearer tokens, by what `INTERLOCK_AUTH__…` names; what each kind needs is imported where it is set."""

from domain.errors import Misconfigured
from entrypoints.groups.access import AuthSettings
from entrypoints.settings import variable
from ports.access import CheckedAccess


def open_access(auth: AuthSettings) -> CheckedAccess | None:
    """Give the judge, or None where nothing is set that tokens could be judged by.

    Raises:
        Misconfigured: JWTs are to be judged, and it is not said whose and for whom.
    """
    if auth.tokens_file is None:
        return open_jwts(auth)
    from adapters.file.token_file import TokenFile  # noqa: PLC0415 - only what is set

    own, jwts = TokenFile(auth.tokens_file), open_jwts(auth)
    if jwts is None:
        return own
    from application.access import EitherKind  # noqa: PLC0415 - only where both are set

    return EitherKind(own, jwts)


def open_jwts(auth: AuthSettings) -> CheckedAccess | None:
    """Give the judge of JWTs, or None where no keys are set.

    Raises:
        Misconfigured: it is not said whose JWTs count, and for whom.
    """
    if auth.jwks_url is None:
        return None
    from adapters.jwt.access import JwtAccess  # noqa: PLC0415 - only what is set
    from adapters.jwt.keys import KeySet  # noqa: PLC0415 - the same
    from domain.claims import ClaimRules  # noqa: PLC0415 - the same

    algorithms = frozenset(auth.jwt_algorithms.split(","))
    rules = ClaimRules(
        issuer=_required(auth.jwt_issuer, "jwt_issuer"),
        audience=_required(auth.jwt_audience, "jwt_audience"),
        scopes_claim=auth.jwt_scopes_claim,
        scope_prefix=auth.jwt_scope_prefix,
    )
    return JwtAccess(KeySet(auth.jwks_url, algorithms, max_age_seconds=auth.jwks_max_age_seconds), rules, algorithms)


def _required(value: str | None, name: str) -> str:
    if value is None:
        raise Misconfigured(variable(("auth", name)), f"is not set; {variable(('auth', 'jwks_url'))} needs it")
    return value
