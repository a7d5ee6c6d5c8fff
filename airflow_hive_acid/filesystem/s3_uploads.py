"""Multi-part uploads of S3, through s3fs: its retries, its credentials, its errors."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.errors import ConfigurationError
from airflow_hive_acid.filesystem.protocol import Part, Upload, WholeUpload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_hive_acid.filesystem.answers import Answers

SETTING = "hive.acid.spark.s3.uploads"


class S3Uploads:
    """See :class:`~airflow_hive_acid.filesystem.protocol.Uploads`.

    :param filesystem: of s3fs.
    :param path: from a URI to s3fs's path, which begins with the bucket.
    """

    def __init__(self, filesystem: Any, answers: Answers, path: Callable[[str], str]) -> None:
        self._fs = filesystem
        self._answers = answers
        self._path = path

    def below(self, uri: str) -> list[Upload]:
        """See the protocol. In pages, as S3 gives them."""
        base = uri.rstrip("/")
        bucket, _, prefix = f"{self._path(base)}/".partition("/")
        with self._asking(f"listing the uploads below {uri}", "ListBucketMultipartUploads"):
            return [
                Upload(f"{base}/{one['Key'][len(prefix) :]}", str(one["UploadId"]))
                for page in self._pages("list_multipart_uploads", Bucket=bucket, Prefix=prefix)
                for one in page.get("Uploads") or ()
            ]

    def look_at(self, upload: Upload) -> WholeUpload:
        """See the protocol."""
        with self._asking(f"looking at the upload of {upload.uri}", "ListMultipartUploadParts"):
            pages = list(self._pages("list_parts", **self._key(upload)))
        return WholeUpload(upload, tuple(_part(one) for page in pages for one in page.get("Parts") or ()))

    def complete(self, whole: WholeUpload) -> None:
        """See the protocol. Asked again because an answer was lost, S3 says that there is no such upload."""
        upload = whole.upload
        parts = [{"PartNumber": p.number, "ETag": p.etag, **dict(p.checksums)} for p in whole.parts]
        try:
            with self._asking(f"completing the upload of {upload.uri}", "PutObject"):
                self._fs.call_s3("complete_multipart_upload", **self._key(upload), MultipartUpload={"Parts": parts})
        except FileNotFoundError:
            if not self._is_there(whole):
                raise

    def abort(self, upload: Upload) -> None:
        """See the protocol."""
        asking = self._asking(f"ending the upload of {upload.uri}", "AbortMultipartUpload")
        # A bucket that is not there says nothing about what is in it, and is another error (R17).
        with contextlib.suppress(FileNotFoundError), asking:
            self._fs.call_s3("abort_multipart_upload", **self._key(upload))

    @contextlib.contextmanager
    def _asking(self, what: str, right: str) -> Iterator[None]:
        """Errors with their meaning.

        :param right: that the store wants for it, without ``s3:``.
        """
        with self._answers.of(what):
            try:
                yield
            except PermissionError as refused:
                raise ConfigurationError(
                    f"{what}: the store refuses it ({refused}). Give the credentials of this process the right "
                    f"s3:{right}, or set {SETTING} to copy, which needs no uploads"
                ) from refused

    def _is_there(self, whole: WholeUpload) -> bool:
        """Whether there is the file of an upload: of its size, and put together of as many parts."""
        path = self._path(whole.upload.uri)
        with self._answers.of(f"looking for {whole.upload.uri}", path):
            try:
                found = self._fs.info(path)
            except FileNotFoundError:
                return False
        of_parts = str(found.get("ETag", "")).strip('"').endswith(f"-{len(whole.parts)}")
        return found["type"] == "file" and int(found["size"]) == whole.size and of_parts

    def _key(self, upload: Upload) -> dict[str, str]:
        bucket, _, key = self._path(upload.uri).partition("/")
        return {"Bucket": bucket, "Key": key, "UploadId": upload.upload_id}

    def _pages(self, method: str, **asked: str) -> Iterator[dict[str, Any]]:
        page: dict[str, Any] = self._fs.call_s3(method, **asked)
        yield page
        while page.get("IsTruncated"):
            if method == "list_parts":
                asked = {**asked, "PartNumberMarker": page["NextPartNumberMarker"]}
            else:
                markers = {"KeyMarker": page["NextKeyMarker"], "UploadIdMarker": page.get("NextUploadIdMarker") or ""}
                asked = {**asked, **markers}
            page = self._fs.call_s3(method, **asked)
            yield page


def _part(found: dict[str, Any]) -> Part:
    checksums = tuple(sorted((name, str(value)) for name, value in found.items() if name.startswith("Checksum")))
    return Part(int(found["PartNumber"]), str(found["ETag"]), int(found["Size"]), checksums)
