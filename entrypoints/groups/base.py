"""What all groups of settings share."""

from typing import Final

from pydantic import BaseModel, ConfigDict

MIB: Final = 1024 * 1024


class Group(BaseModel):
    """Settings that belong together; never changed once read."""

    model_config = ConfigDict(frozen=True)
