"""Bad lines, kept in a file of their own so that they can be mended and tried again."""

from __future__ import annotations

from typing import BinaryIO

from dsv4._inputs.input_files import os_error_reason
from dsv4.dataset.failures import DatasetError
from dsv4.dataset.partial import Progress


class Rejects:
    """The file, if somebody asked for one. A run that is resumed cuts it to where it was."""

    def __init__(self, path: str | None, begin: Progress) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        if path is not None:
            try:
                self._file = open(path, "r+b" if begin.rejects else "wb")  # noqa: SIM115
                self._file.truncate(begin.rejects)
                self._file.seek(begin.rejects)
            except OSError as error:
                raise DatasetError(f"cannot write {path}: {os_error_reason(error)}") from None

    def add(self, lines: bytes) -> None:
        if self._file is not None and lines:
            try:
                self._file.write(lines)
                self._file.flush()
            except OSError as error:
                raise DatasetError(f"cannot write {self._path}: {os_error_reason(error)}") from None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
