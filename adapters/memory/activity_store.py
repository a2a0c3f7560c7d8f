"""The activity store in one process's memory (ports/activity_store.py)."""

import secrets
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence

from domain.activity import Activity, Found, Stretch, matches, place_key, place_of
from domain.times import format_time


class MemoryActivityStore:
    """Rows in a dict, and for each account its places in order. Methods never wait, so each is atomic in its loop."""

    def __init__(self) -> None:
        """Start empty."""
        self._ids: set[str] = set()
        self._rows: dict[str, dict[str, Activity]] = {}
        self._places: dict[str, list[str]] = {}
        self._key = secrets.token_bytes(32)

    async def record(self, activities: Sequence[Activity], /) -> list[bool]:
        """Keep rows whose ids are free; see the port."""
        return [self._record(activity) for activity in activities]

    async def find(self, stretch: Stretch, /) -> Found:
        """Look at so many rows; see the port."""
        query = stretch.query
        places = self._places.get(query.account, [])
        first = bisect_left(places, format_time(query.earliest)) if query.earliest else 0
        last = bisect_right(places, format_time(query.latest) + "$") if query.latest else len(places)
        if stretch.after is not None:
            after = place_key(stretch.after)
            if query.descending:
                last = min(last, bisect_left(places, after))
            else:
                first = max(first, bisect_right(places, after))
        there = range(last - 1, first - 1, -1) if query.descending else range(first, last)
        found: list[Activity] = []
        for looked_at, index in enumerate(there, start=1):
            row = self._rows[query.account][places[index]]
            if matches(query, row.type, row.report_id):
                found.append(row)
            if len(found) == stretch.wanted or looked_at == stretch.rows:
                return Found(found, place_of(row))
        return Found(found, None)

    async def cursor_key(self) -> bytes:
        """Give the key that was made with the store."""
        return self._key

    def _record(self, activity: Activity) -> bool:
        if activity.activity_id in self._ids:
            return False
        self._ids.add(activity.activity_id)
        place = place_key(place_of(activity))
        self._rows.setdefault(activity.account, {})[place] = activity
        insort(self._places.setdefault(activity.account, []), place)
        return True
