"""Accounts' activity, and what its readers do not see."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr

from domain.cursor import MIN_KEY_BYTES
from entrypoints.groups.base import MIB, Group, TableName


def _are_cursor_keys(keys: SecretStr) -> SecretStr:
    if any(len(key.encode()) < MIN_KEY_BYTES for key in keys.get_secret_value().split(",")):
        raise ValueError("a key that is too short")
    return keys


class ActivitySettings(Group):
    """Where the activity of accounts is kept, and how it is read."""

    table: TableName = "interlock-activity"
    bucket: Annotated[
        str | None,
        Field(
            pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$",
            description="S3 bucket of events that are too large for a row; unset: they are refused on aws",
        ),
    ] = None
    inline_bytes: Annotated[
        int,
        Field(ge=1024, le=384 * 1024, description="largest event that is kept in its row, in bytes, 1024-393216"),
    ] = 64 * 1024
    cursor_keys: Annotated[
        SecretStr | None,
        AfterValidator(lambda keys: keys and _are_cursor_keys(keys)),
        Field(
            description="secrets of 32 or more bytes, separated by commas: the first signs cursors, all are taken; "
            "unset: the store makes one"
        ),
    ] = None
    max_reads: Annotated[
        int, Field(ge=1, le=10_000, description="reads of the store for one page, 1-10000; then it ends with a cursor")
    ] = 200
    max_page_bytes: Annotated[
        int, Field(ge=1024, le=64 * MIB, description="bytes of one page, 1024-67108864; then it ends with a cursor")
    ] = 2 * MIB


def _is_pseudonym_key(key: SecretStr) -> SecretStr:
    if not 16 <= len(key.get_secret_value().encode()) <= 1024:  # noqa: PLR2004 - domain.redaction
        raise ValueError("another length")
    return key


class RedactionSettings(Group):
    """What readers do not get to see, beyond what nobody does. The key is never printed."""

    policy_file: Annotated[
        Path | None, Field(description="JSON file with names, safe-lists and options of redaction; unset: the defaults")
    ] = None
    mask_ips: Annotated[bool, Field(description="whether IP addresses are masked: true or false")] = False
    pseudonym_key: Annotated[
        SecretStr | None,
        AfterValidator(lambda key: key and _is_pseudonym_key(key)),
        Field(
            description="secret of 16 to 1024 bytes: equal personal values get equal pseudonyms in place of masks; "
            "unset: masks"
        ),
    ] = None
