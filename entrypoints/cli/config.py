"""`interlock config`: what is in force, and from where (CONTRACTS § 8)."""

import re
from typing import Final

from entrypoints.cli.output import Json, emit, table, tell
from entrypoints.cli.session import loaded

_PLAIN_URL: Final = re.compile(r"[a-z+]+://(?P<user>[^@?]*@)?(?P<place>[\w.,:\[\]-]+(?:/\w*)?)", re.ASCII)


def config(as_json: Json = False) -> None:
    """Print the settings in force and where each comes from; secrets are masked.

    Example: INTERLOCK_ENGINE=aws interlock config --json
    """
    from pydantic import BaseModel, SecretStr

    from entrypoints.logs import mask
    from entrypoints.settings import fields, variable

    settings, origins, unknown = loaded()

    def value_of(path: tuple[str, ...]) -> object:
        value: object = settings
        for name in path:
            value = getattr(value, name) if isinstance(value, BaseModel) else None
        if isinstance(value, SecretStr):
            return _where(value.get_secret_value())
        return value if value is None or isinstance(value, int | float) else mask(str(value))

    rows = [(variable(path), value_of(path), origins[path]) for path, _ in fields()]
    if as_json:
        keys = ("variable", "value", "from")
        emit({"settings": [dict(zip(keys, row, strict=True)) for row in rows], "unknown": unknown})
        return
    table(("variable", "value", "from"), rows)
    for stray in unknown:
        tell(f"warning: {stray}")


def _where(secret: str) -> str:
    """Show where a secret URL leads if that is plain to see, and nothing of anything else."""
    scheme, separator, _ = secret.partition("://")
    if not separator:
        return "***"
    plain = _PLAIN_URL.fullmatch(secret)
    return f"{scheme}://{'***@' if plain['user'] else ''}{plain['place']}" if plain else f"{scheme}://***"
