"""What can be set, and from which variables (CONTRACTS § 8; docs/reference/configuration.md).

The models need pydantic alone: a Lambda function reads its variables with `read_variables`, because pydantic-settings
would add a fifth to its cold start (goal G19). Everything else reads through `entrypoints.sources`.
"""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo

from adapters.file.regular import read_setting
from domain.errors import Misconfigured
from domain.lifecycle import DEFAULT_LIFECYCLE, LifecycleDefinition, read_definition
from entrypoints.groups.access import AuthSettings, HttpSettings
from entrypoints.groups.activity import ActivitySettings, RedactionSettings
from entrypoints.groups.base import Group
from entrypoints.groups.dedup import DedupSettings, GrpcSettings
from entrypoints.groups.front_door import IntakeSettings, LakeSettings
from entrypoints.groups.lifecycle import EventsSettings, LifecycleSettings
from entrypoints.groups.router import BusSettings, RouterSettings, StoredSettings, TemporalSettings

PREFIX: Final = "INTERLOCK_"
DELIMITER: Final = "__"

YIELDING: Final = 10
"""Added to the niceness of machine-side processes that share one machine with the API: operators go first (R-108)."""


class Place(Group):
    """What holds for everything."""

    engine: Annotated[
        Literal["memory", "sqlite", "aws"],
        Field(description="the stores and queues behind the ports: memory, sqlite, aws"),
    ] = "sqlite"
    data_dir: Annotated[Path, Field(description="folder of the sqlite engine's files")] = Path(".interlock")


class Settings(Place):
    """Everything that can be set."""

    events: EventsSettings = Field(default_factory=EventsSettings)
    lifecycle: LifecycleSettings = Field(default_factory=LifecycleSettings)
    auth: AuthSettings = Field(default_factory=AuthSettings)
    http: HttpSettings = Field(default_factory=HttpSettings)
    dedup: DedupSettings = Field(default_factory=DedupSettings)
    grpc: GrpcSettings = Field(default_factory=GrpcSettings)
    settings: StoredSettings = Field(default_factory=StoredSettings)
    bus: BusSettings = Field(default_factory=BusSettings)
    temporal: TemporalSettings = Field(default_factory=TemporalSettings)
    router: RouterSettings = Field(default_factory=RouterSettings)
    activity: ActivitySettings = Field(default_factory=ActivitySettings)
    redaction: RedactionSettings = Field(default_factory=RedactionSettings)
    intake: IntakeSettings = Field(default_factory=IntakeSettings)
    lake: LakeSettings = Field(default_factory=LakeSettings)


def fields(
    model: type[BaseModel] = Settings, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], FieldInfo]]:
    """Give each setting's path and field, in the order of the models."""
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from fields(field.annotation, (*path, name))
        else:
            yield (*path, name), field


def variable(path: tuple[str, ...]) -> str:
    """Name the variable of a setting: `INTERLOCK_HTTP__PORT`."""
    return PREFIX + DELIMITER.join(path).upper()


def refuse_groups(given: Collection[str]) -> None:
    """Refuse a whole group in one variable, as JSON: settings have one form each.

    Args:
        given: names of variables, in upper case.

    Raises:
        Misconfigured: naming the variable.
    """
    for group in {path[0] for path, _ in fields() if len(path) > 1}:
        if variable((group,)) in given:
            example = next(variable(path) for path, _ in fields() if path[0] == group)
            raise Misconfigured(variable((group,)), f"is a group; set its variables one by one, such as {example}")


def read_variables(variables: Mapping[str, str]) -> Settings:
    """Read settings from environment variables; an empty one counts as unset.

    Raises:
        Misconfigured: naming the variable and what it takes.
    """
    given = {name.upper(): value for name, value in variables.items() if value}
    refuse_groups(given)
    tree: dict[str, Any] = {}
    for path, _ in fields():
        value = given.get(variable(path))
        if value is not None:
            branch = tree
            for name in path[:-1]:
                branch = branch.setdefault(name, {})
            branch[path[-1]] = value
    try:
        return _settings_of(tree)
    except ValidationError as error:
        raise misconfigured(error) from None


def _settings_of(tree: Mapping[str, Any]) -> Settings:
    """Check those groups alone that something is given for: to build them all is a tenth of a cold start (G19).

    Raises:
        ValidationError: with every complaint of the whole.
    """
    try:
        place = Place.model_validate({name: value for name, value in tree.items() if name in Place.model_fields})
        values: dict[str, Any] = vars(place) | {
            name: field.annotation.model_validate(tree[name]) if name in tree else field.annotation.model_construct()
            for name, field in Settings.model_fields.items()
            if isinstance(field.annotation, type) and issubclass(field.annotation, Group)
        }
    except ValidationError:
        return Settings.model_validate(tree)
    return Settings.model_construct(**values)


def misconfigured(error: ValidationError) -> Misconfigured:
    """Say which variable cannot work, and what it takes; never what it holds.

    Args:
        error: from `Settings`; the first complaint is told, and how many others there are.
    """
    complaints = error.errors(include_input=False, include_url=False)
    wrong = tuple(str(part) for part in complaints[0]["loc"])
    field = dict(fields())[wrong]
    reason = f"must be: {field.description} (default: {'unset' if field.default is None else field.default})"
    others = len(complaints) - 1
    return Misconfigured(variable(wrong), reason + (f"; and {others} more to put right" if others else ""))


def load_definition(settings: Settings) -> LifecycleDefinition:
    """Give the lifecycle in force (R-112).

    Raises:
        Misconfigured: its file cannot be read, or does not hold a lifecycle.
    """
    file = settings.lifecycle.definition_file
    if file is None:
        return DEFAULT_LIFECYCLE
    return read_setting(file, variable(("lifecycle", "definition_file")), read_definition)
