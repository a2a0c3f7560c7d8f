"""What all groups of settings share."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

MIB: Final = 1024 * 1024

TableName = Annotated[
    str,
    Field(pattern=r"^[A-Za-z0-9_.-]{3,255}$", description="name of the DynamoDB table: 3-255 of A-Z a-z 0-9 _ . -"),
]


class Group(BaseModel):
    """Settings that belong together; never changed once read."""

    # Built once, as parts of `Settings`: built by themselves too, they would cost each cold start some 5 ms more (G19).
    model_config = ConfigDict(frozen=True, defer_build=True)
