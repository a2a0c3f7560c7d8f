"""The lake on the Glue Data Catalog and S3, on a double: moto, which is for one caller at a time (R-506, FC-46)."""

import uuid
from collections.abc import Iterator

import pytest

from adapters.iceberg.catalogs import glue_catalog
from adapters.iceberg.event_table import IcebergEventTable
from domain.errors import Misconfigured, Unavailable
from entrypoints.engines.lake import open_table
from entrypoints.groups.front_door import LakeSettings
from entrypoints.settings import Settings
from tests.contracts.event_table import declared, event, load, message, packed
from tests.engines import REGION, Engine
from tests.lakes import asked

pytestmark = pytest.mark.anyio


@pytest.fixture
def table(moto: Engine) -> Iterator[IcebergEventTable]:
    name = f"interlock_{uuid.uuid4().hex[:12]}"
    bucket = name.replace("_", "-")
    moto.aws.s3.client().create_bucket(Bucket=bucket)
    variables = {"AWS_REGION": REGION, "AWS_ENDPOINT_URL": str(moto.url)}
    found = IcebergEventTable(lambda: glue_catalog(f"s3://{bucket}/lake", variables), f"{name}.events")
    yield found
    found.close()


async def test_r506_loads_schemas_and_queries_are_the_same_on_glue(table: IcebergEventTable) -> None:
    assert dict(await table.schemas()) == {}
    objects = packed("a", message(1, event("e1", data={"v": 1.5})), message(2, event("e2")))
    _, first = await load(table, objects)
    _, again = await load(table, objects)
    assert (first.rows, again.rows, again.duplicates, again.version) == (2, 0, 2, first.version)
    await table.register(declared({"name": "v", "type": "double"}))
    _, third = await load(table, packed("b", message(3, event("e3", data={"v": 2})), message(4, event("e2"))))
    assert (third.rows, third.duplicates, third.files_replaced) == (1, 1, 1)
    found = await asked(table, "select id, v from priced order by id")
    assert found == [("e1", None), ("e2", None), ("e3", 2.0)]


async def test_fc47_two_loads_at_once_on_glue_keep_each_event_once(table: IcebergEventTable) -> None:
    async with table.load(0) as one, table.load(0) as other:
        await one.stage([packed("a", message(1, event("e1")))])
        await other.stage([packed("b", message(2, event("e1")), message(3, event("e2")))])
        first, second = await one.commit(), await other.commit()
    assert (first.rows, second.rows, second.duplicates) == (1, 1, 1)
    found = table.table()
    assert found is not None
    assert found.scan().count() == 2


async def test_an_aws_that_is_not_there_is_unavailable() -> None:
    variables = {"AWS_REGION": REGION, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    table = IcebergEventTable(lambda: glue_catalog("s3://none/lake", variables), "interlock.events")
    with pytest.raises(Unavailable, match="Glue is unavailable"):
        await table.schemas()


async def test_aws_needs_a_bucket_or_a_warehouse() -> None:
    with pytest.raises(Misconfigured, match="INTERLOCK_LAKE__WAREHOUSE: is not set"):
        await open_table(Settings(engine="aws")).schemas()
    with pytest.raises(ValueError, match="warehouse"):
        LakeSettings(warehouse="/tmp/lake")  # noqa: S108 - refused
