"""The composition root as a dependency-injector container over the factories of `entrypoints.wiring` (R-603).

Only this module imports that library. A provider makes its object once, when it is first asked for.
"""

from dependency_injector import containers, providers

from entrypoints.settings import Settings
from entrypoints.wiring import (
    make_app,
    make_consumption,
    make_dedup_service,
    make_explain,
    make_gathering,
    make_intake,
    make_metrics,
    make_platform,
    make_skip_list_service,
    open_access,
    open_activity,
    open_dedup,
    open_engine,
    open_event_bus,
    open_front_door,
    open_intake,
    open_router_stores,
    open_skip_list,
)


class Container(containers.DeclarativeContainer):
    """Everything that a long-running process needs; give it `settings`."""

    settings = providers.Dependency(instance_of=Settings)
    metrics = providers.Singleton(make_metrics)
    engine = providers.Singleton(open_engine, settings)
    store = engine.provided.store
    queue = engine.provided.queue
    publisher = engine.provided.publisher
    access = providers.Singleton(open_access, settings)
    activity = providers.Singleton(open_activity, settings, metrics)
    platform = providers.Singleton(make_platform, settings, engine, metrics, activity=activity)
    consumer_platform = providers.Singleton(make_platform, settings, engine, metrics, publishing=False)
    consumption = providers.Singleton(make_consumption, settings, engine)
    skip_list = providers.Singleton(open_skip_list, settings, metrics)
    event_bus = providers.Singleton(open_event_bus, settings)
    router_stores = providers.Singleton(open_router_stores, settings)
    explain = providers.Singleton(make_explain, settings, router_stores, skip_list, metrics)
    intake_engine = providers.Singleton(open_intake, settings)
    intake_queue = intake_engine.provided.queue
    intake = providers.Singleton(make_intake, intake_engine, metrics)
    front_door = providers.Singleton(open_front_door, settings, intake_engine)
    gathering = providers.Singleton(make_gathering, settings)
    app = providers.Singleton(
        make_app, settings, platform, access, activity, metrics.provided.text, explain, front_door
    )
    dedup = providers.Singleton(open_dedup, settings, metrics)
    dedup_service = providers.Singleton(make_dedup_service, settings, dedup, metrics)
    skip_list_service = providers.Singleton(make_skip_list_service, skip_list)
