"""The catalogs that know where the table is: a SQLite file, or the Glue Data Catalog."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyiceberg.catalog import Catalog

NAME: Final = "interlock"
ATTEMPTS: Final = 3
"""How often boto3 asks Glue before it says that it is away."""


def sqlite_catalog(folder: Path) -> Catalog:
    """Open the catalog of a folder, which is made if need be: `catalog.db`, and the files in `warehouse/`.

    Files are named by their whole path in the table's metadata: the folder stays where it is.
    """
    from pyiceberg.catalog.sql import SqlCatalog  # noqa: PLC0415 - it loads SQLAlchemy

    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return SqlCatalog(NAME, uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=(folder / "warehouse").as_uri())


def glue_catalog(warehouse: str, variables: Mapping[str, str]) -> Catalog:
    """Open the Glue Data Catalog of this account and region.

    Args:
        warehouse: where the files of new tables go: `s3://bucket/folder`.
        variables: the environment; the AWS SDK's own variables say where and who, for Glue and for the files.
    """
    from pyiceberg.catalog.glue import GlueCatalog  # noqa: PLC0415 - it loads boto3

    region = variables.get("AWS_REGION") or variables.get("AWS_DEFAULT_REGION")
    everywhere = variables.get("AWS_ENDPOINT_URL")
    given = {
        "glue.region": region,
        "s3.region": region,
        "glue.max-retries": ATTEMPTS,
        "glue.endpoint": variables.get("AWS_ENDPOINT_URL_GLUE") or everywhere,
        "s3.endpoint": variables.get("AWS_ENDPOINT_URL_S3") or everywhere,
    }
    properties: Any = {"warehouse": warehouse, **{name: value for name, value in given.items() if value}}
    return GlueCatalog(NAME, **properties)
