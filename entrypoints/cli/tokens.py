"""`interlock token`: bearer tokens of the API, hashed at rest (CONTRACTS § 8)."""

import secrets
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from domain.errors import Misconfigured
from entrypoints.cli.output import Json, emit, say, table, tell
from entrypoints.cli.session import loaded
from entrypoints.durations import read_duration
from entrypoints.settings import variable

app = typer.Typer(no_args_is_help=True, help="Bearer tokens of the API.")

TokensFile = Annotated[
    Path | None, typer.Option(help=f"File of hashed tokens; {variable(('auth', 'tokens_file'))} if not given.")
]


@app.command()
def create(
    name: Annotated[str, typer.Option(help="Whom it is for: the actor of moves made with it.", show_default=False)],
    scope: Annotated[list[str], typer.Option(help="ingest, view or operate; may be repeated.", show_default=False)],
    expires: Annotated[str, typer.Option(help="After how long it ends: 45s, 90m, 12h, 30d.")] = "30d",
    tokens_file: TokensFile = None,
    as_json: Json = False,
) -> None:
    """Make a token and print it, once; the file keeps only a hash.

    Example: interlock token create --name ada --scope view --scope operate --expires 30d
    """
    from adapters.file.token_file import add_token
    from domain.access import RANDOM_BYTES, SCOPES, Scope, issue_token

    chosen: list[Scope] = [known for known in SCOPES if scope.count(known)]
    if strange := [given for given in scope if given not in SCOPES]:
        raise typer.BadParameter(f"{strange[0]!r} is not one of {', '.join(SCOPES)}", param_hint="--scope")
    path = _path(tokens_file)
    expires_at = datetime.now(UTC) + read_duration(expires, "--expires")
    token = issue_token(name, chosen, expires_at, secrets.token_bytes(RANDOM_BYTES))
    add_token(path, token.record)
    text, record = token.text.get_secret_value(), token.record
    if as_json:
        about = {"id": record.id, "name": record.name, "scopes": chosen, "expires_at": record.expires_at}
        emit({"token": text, **about})
        return
    say(text)
    tell(f"{record.name}: {', '.join(chosen)}, until {record.expires_at}. It is not shown again; {path} has its hash.")


@app.command("list")
def list_(tokens_file: TokensFile = None, as_json: Json = False) -> None:
    """List tokens, without their secrets.

    Example: interlock token list --tokens-file tokens.json
    """
    from adapters.file.token_file import list_tokens
    from domain.access import SCOPES

    rows = [
        {
            "id": record.id,
            "name": record.name,
            "scopes": [scope for scope in SCOPES if scope in record.scopes],
            "expires_at": record.expires_at,
        }
        for record in list_tokens(_path(tokens_file)).values()
    ]
    if as_json:
        emit(rows)
    else:
        table(
            ("id", "name", "scopes", "expires_at"),
            [[*list(row.values())[:2], ", ".join(row["scopes"]), row["expires_at"]] for row in rows],
        )


@app.command()
def revoke(
    token_id: Annotated[str, typer.Argument(help="Its id, as `interlock token list` shows it.", show_default=False)],
    tokens_file: TokensFile = None,
) -> None:
    """Revoke a token at once, without a restart.

    Example: interlock token revoke 0123456789abcdef
    """
    from adapters.file.token_file import remove_token

    remove_token(_path(tokens_file), token_id)
    tell(f"token {token_id} is revoked")


def _path(given: Path | None) -> Path:
    path = given or loaded().settings.auth.tokens_file
    if path is None:
        raise Misconfigured(variable(("auth", "tokens_file")), "is not set; set it, or pass --tokens-file")
    return path
