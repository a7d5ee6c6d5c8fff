"""Multi-part uploads in memory, of a filesystem that has none of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_hive_acid.errors import StorageUnavailableError
from airflow_hive_acid.filesystem.protocol import Part, Upload, WholeUpload

if TYPE_CHECKING:
    from airflow_hive_acid.filesystem import Filesystem


class FakeUploads:
    """See :class:`~airflow_hive_acid.filesystem.protocol.Uploads`.

    :param filesystem: where files come into being.
    """

    def __init__(self, filesystem: Filesystem) -> None:
        self._filesystem = filesystem
        #: Contents of the parts of uploads that have not ended.
        self.open: dict[Upload, tuple[str, ...]] = {}
        #: Names of methods, and of files that cannot be put together, for which the store gives no answer.
        self.fails: set[str] = set()

    def start(self, uri: str, upload_id: str, *parts: str) -> None:
        """As a task does."""
        self.open[Upload(uri, upload_id)] = parts

    def below(self, uri: str) -> list[Upload]:
        self._answer("below")
        return [one for one in self.open if one.uri.startswith(f"{uri}/")]

    def look_at(self, upload: Upload) -> WholeUpload:
        if upload not in self.open:
            raise FileNotFoundError(upload.uri)
        parts = enumerate(self.open[upload], 1)
        return WholeUpload(upload, tuple(Part(number, f"etag{number}", len(content)) for number, content in parts))

    def complete(self, whole: WholeUpload) -> None:
        directory, _, name = whole.upload.uri.rpartition("/")
        self._answer(name)
        self.look_at(whole.upload)
        self._filesystem.make_directory(directory)
        self._filesystem.write_text(whole.upload.uri, "".join(self.open.pop(whole.upload)))

    def abort(self, upload: Upload) -> None:
        self._answer("abort")
        self.open.pop(upload, None)

    def _answer(self, what: str) -> None:
        if what in self.fails:
            raise StorageUnavailableError(f"{what}: AccessDenied")
