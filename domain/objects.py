"""Names of stored objects: the same rule for folders on a disk and for S3 (FC-43)."""

import re
from typing import Final, NamedTuple

from domain.errors import Invalid

MAX_NAME_BYTES: Final = 1024
MAX_STEP: Final = 255

_STEP = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9._=-]*", re.ASCII)
_PREFIX_END = re.compile(r"(?:[A-Za-z0-9_=-][A-Za-z0-9._=-]*)?", re.ASCII)


class StoredObject(NamedTuple):
    """An object in a list: its name, and its size in bytes."""

    name: str
    size: int


class ObjectPage(NamedTuple):
    """A page of a list, in the order of names.

    Attributes:
        after: what to ask for next; None on the last page, and only there (FC-25).
    """

    objects: list[StoredObject]
    after: str | None


def check_object_name(name: str) -> None:
    """Hold a name against what every store takes: steps of letters, digits and `._=-`, separated by `/`.

    No step starts with a dot, so none leads out of the folder or hides.

    Raises:
        Invalid: with the place `name`.
    """
    if len(name) > MAX_NAME_BYTES or not all(
        len(step) <= MAX_STEP and _STEP.fullmatch(step) for step in name.split("/")
    ):
        raise Invalid("name", "must be steps of A-Z a-z 0-9 . _ = - that start with no dot, separated by /")


def check_prefix(prefix: str) -> None:
    """Hold what names start with against the same rule; it may be empty and may end within a step.

    Raises:
        Invalid: with the place `prefix`.
    """
    folder, _, end = prefix.rpartition("/")
    if _PREFIX_END.fullmatch(end) is None or (
        "/" in prefix and not all(_STEP.fullmatch(step) for step in folder.split("/"))
    ):
        raise Invalid("prefix", "must be the beginning of a name: steps of A-Z a-z 0-9 . _ = -, separated by /")
