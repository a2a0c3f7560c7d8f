"""The one place where errors of pyiceberg, of its catalogs and of its files become ours."""

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Final

from pyiceberg.exceptions import (
    CommitStateUnknownException,
    RESTError,
    ServerError,
    ServiceUnavailableError,
)

from domain.errors import InterlockError, Misconfigured, Unavailable

CATALOG: Final = "the lake's catalog"


@contextmanager
def translated() -> Iterator[None]:
    """Raise our errors for theirs.

    | theirs | ours |
    |---|---|
    | a worker process was killed | `Unavailable` |
    | the catalog's database or service does not answer | `Unavailable` |
    | a file cannot be read or written | `Unavailable` |
    | boto3's, under the Glue catalog | as everywhere (`adapters.aws.errors`) |
    | no such table, bucket or warehouse, and all else that pyiceberg refuses | `Misconfigured` |
    """
    try:
        yield
    except InterlockError:
        raise
    except BrokenExecutor as error:
        raise Unavailable("a worker process", "it ended early; is there enough memory?") from error
    except OSError as error:
        raise Unavailable("the lake's files", error.strerror or type(error).__name__) from error
    except Exception as error:
        known = _translate(error)
        if known is None:
            raise
        raise known from error


def _translate(error: Exception) -> InterlockError | None:
    if isinstance(error, (CommitStateUnknownException, ServerError, ServiceUnavailableError)):
        return Unavailable(CATALOG, type(error).__name__)
    module = type(error).__module__.partition(".")[0]
    if module == "sqlalchemy":
        return Unavailable(CATALOG, type(error).__name__)
    if module in ("botocore", "boto3"):
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - only where the catalog is Glue

        from adapters.aws.errors import translate  # noqa: PLC0415 - the same

        if isinstance(error, (BotoCoreError, ClientError)):
            return translate("Glue", error)
    if module == "pyiceberg" or isinstance(error, RESTError):
        return Misconfigured(CATALOG, f"{type(error).__name__}: check warehouse, table and rights")
    return None
