"""Multi-part uploads of files that have their final names already, and that nobody sees before they are put together.

Tasks upload the parts (decision 74). Only publishing puts them together, when the manifest is recorded, and a fence
ends the uploads without a file: whoever wanted to publish finds none any more (R4). What counts is what the store says:
the parts are listed and compared with the job's report as a listing of staging is (R5).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import HiveAcidError, PublishError, PublishInterruptedError
from airflow_hive_acid.filesystem.protocol import Upload
from airflow_hive_acid.filesystem.threads import in_threads
from airflow_hive_acid.format import paths
from airflow_hive_acid.format.names import parse_directory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from airflow_hive_acid.filesystem.protocol import Filesystem, Uploads, WholeUpload
    from airflow_hive_acid.format.names import AcidDirectory

log = logging.getLogger(__name__)


def uploads_of(filesystem: Filesystem, uri: str, table: str) -> Uploads:
    """The uploads of the store of a URI.

    :raises PublishError: when a job reports uploads to a store that has none.
    """
    found = filesystem.uploads(uri)
    if found is None:
        raise PublishError(f"the job of {table} reported uploads, and {uri} is on no store that has them")
    return found


def look_at_all(filesystem: Filesystem, uploads: Mapping[str, Upload], table: str) -> dict[str, WholeUpload]:
    """Uploads with their parts.

    :param uploads: by the names of their files.
    :raises PublishInterruptedError: when one was ended (fenced).
    """

    def look(upload: Upload) -> WholeUpload:
        try:
            return uploads_of(filesystem, upload.uri, table).look_at(upload)
        except FileNotFoundError:
            raise PublishInterruptedError(_gone(upload, table)) from None

    found = in_threads(look, list(uploads.values()), "uploads")
    return dict(zip(uploads, found, strict=True))


def complete_all(filesystem: Filesystem, uploads: Iterable[WholeUpload], table: str) -> None:
    """Make files of uploads.

    :raises PublishInterruptedError: when one was ended (fenced). Files of others stay: their write id will be aborted
        and cleaned.
    """

    def complete(whole: WholeUpload) -> None:
        try:
            uploads_of(filesystem, whole.upload.uri, table).complete(whole)
        except FileNotFoundError:
            raise PublishInterruptedError(_gone(whole.upload, table)) from None

    in_threads(complete, list(uploads), "uploads")


def _gone(upload: Upload, table: str) -> str:
    return (
        f"the upload of {upload.uri} was ended: the txn of its job on {table} was given up, or a rule of the bucket "
        "ends uploads that are younger than the statement; run the statement again"
    )


def abort_left(
    filesystem: Filesystem, location: str, belongs: Callable[[AcidDirectory], bool], places: Iterable[str] = ()
) -> str | None:
    """End uploads of a table that nobody will put together: of attempts that do not count.

    :param location: URI of the table directory.
    :param belongs: whether the directory of a file is one of theirs.
    :param places: directories of partitions; those that lie outside of the table's are looked at as well.
    :return: why not all were found or ended, None if they were.
    """
    try:
        store = filesystem.uploads(location)
        if store is None:
            return None
        # Nothing is uploaded to another bucket (maintenance/warehouse/uploads.py).
        near = {place.rstrip("/") for place in places if paths.is_same_store(location, place)}
        outside = sorted(place for place in near if paths.relative_to(location, place) is None)
        left = [one for one in store.below(location) if paths.is_inside(location, one.uri)]
        for found in in_threads(lambda place: _directly_in(filesystem, place), outside, "uploads"):
            left += found
        left = [one for one in left if _is_in(one, belongs)]
        in_threads(lambda one: uploads_of(filesystem, one.uri, location).abort(one), left, "uploads")
    except (HiveAcidError, OSError) as error:
        # They are seen by nobody, and cost money until they are ended: docs/how-to/running/storage.md.
        log.warning("uploads below %s may be left, and cost money until a rule of the bucket ends them: %s",
                    location, error)  # fmt: skip
        return f"{type(error).__name__}: {error}"
    if left:
        log.info("%d uploads below %s, which belong to no job that counts, were ended", len(left), location)
    return None


def abort_named(filesystem: Filesystem, manifest: Mapping[str, Any]) -> None:
    """End the uploads that a recorded manifest names: whoever publishes it finds none any more (R4).

    :param manifest: the document.
    """
    directories = [found for found in manifest.get("directories", ()) if not isinstance(found, str)]
    named = [
        Upload(f"{found['place']}/{found['name']}/{name}", upload_id)
        for found in directories
        for name, upload_id in found.get("uploads", {}).items()
    ]
    in_threads(lambda one: uploads_of(filesystem, one.uri, manifest["table"]).abort(one), named, "uploads")


def _directly_in(filesystem: Filesystem, place: str) -> list[Upload]:
    """Uploads of files in the directories of a partition; what lies deeper may be another table's with the same ids."""
    store = filesystem.uploads(place)
    below = [] if store is None else store.below(place)
    return [one for one in below if one.uri.rsplit("/", 2)[0] == place]


def _is_in(upload: Upload, belongs: Callable[[AcidDirectory], bool]) -> bool:
    directory = parse_directory(upload.uri.rsplit("/", 2)[-2])
    return directory is not None and belongs(directory)
