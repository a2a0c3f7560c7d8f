"""The file of the router: catalog, ledger and caught events. Times are microseconds since 1970."""

from typing import Final

ROUTER: Final = (
    """
    CREATE TABLE offers (
        worker TEXT PRIMARY KEY, workflows TEXT NOT NULL, task_queues TEXT NOT NULL, until INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE handled (
        workflow_id TEXT PRIMARY KEY, run_id TEXT NOT NULL, completed_at INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID;
    CREATE INDEX handled_by_time ON handled (completed_at);
    CREATE TABLE swept (only INTEGER PRIMARY KEY CHECK (only = 1), until INTEGER NOT NULL) STRICT;
    CREATE TABLE caught (
        type TEXT NOT NULL, workflow_id TEXT NOT NULL, caught_at INTEGER NOT NULL, envelope TEXT NOT NULL,
        why TEXT NOT NULL, replayed_at INTEGER, PRIMARY KEY (type, workflow_id)
    ) STRICT;
    """,
)
