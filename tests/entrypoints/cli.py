"""Running the command `interlock` in this process."""

import os
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from entrypoints.cli.main import main


class Run(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


class Interlock:
    """The command, in a folder of its own and with none of our variables set."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        """Go to the folder."""
        for name in list(os.environ):
            if name.startswith("INTERLOCK_"):
                monkeypatch.delenv(name)
        monkeypatch.chdir(folder)
        self.folder = folder
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments: str, **variables: str) -> Run:
        """Run a command; `variables` are set for good."""
        for name, value in variables.items():
            self._monkeypatch.setenv(name, value)
        self._monkeypatch.setattr(sys, "argv", ["interlock", *arguments])
        self._capsys.readouterr()
        code: object = 0
        try:
            main()
        except SystemExit as end:
            code = end.code
        out, err = self._capsys.readouterr()
        assert isinstance(code, int)
        assert "Traceback" not in out + err
        return Run(code, out, err)
