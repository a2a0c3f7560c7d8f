"""What every source of ids promises (ports/id_source.py). Subclass it and provide the `ids` fixture."""

import re
from typing import ClassVar

from ports.id_source import IdSource


class IdSourceContract:
    """One class of tests an adapter."""

    adapter: ClassVar[str]

    def test_no_id_comes_twice(self, ids: IdSource) -> None:
        assert len({ids.new_id() for _ in range(10_000)}) == 10_000

    def test_ids_have_at_most_64_plain_characters(self, ids: IdSource) -> None:
        for _ in range(100):
            assert re.fullmatch("[A-Za-z0-9-]{1,64}", ids.new_id())
