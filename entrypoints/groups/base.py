"""What all groups of settings share."""

from typing import Final

from pydantic import BaseModel, ConfigDict

MIB: Final = 1024 * 1024


class Group(BaseModel):
    """Settings that belong together; never changed once read."""

    # Built once, as parts of `Settings`: built by themselves too, they would cost each cold start some 5 ms more (G19).
    model_config = ConfigDict(frozen=True, defer_build=True)
