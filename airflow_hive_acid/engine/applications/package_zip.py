"""What a cluster needs of this package, as one zip: ``format``, ``spark``, the errors, and what older Pythons lack.

Built once per version into a cache directory and handed to spark-submit as ``--py-files``. In local mode nothing is
shipped: the driver runs in the same Python environment.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import zipfile
from pathlib import Path

import airflow_hive_acid

_ROOT = Path(airflow_hive_acid.__file__).resolve().parent
_ROOMS = ("format", "spark")
_MODULES = ("__init__.py", "errors.py", "python_versions.py")
# The oldest time a zip can hold: equal content makes equal files, whenever and wherever they are built.
_TIME = (1980, 1, 1, 0, 0, 0)


def cache_directory() -> Path:
    """Where things are kept that can be made again: ``$HIVE_ACID_CACHE``, else the user's cache directory."""
    explicit = os.environ.get("HIVE_ACID_CACHE")
    if explicit:
        return Path(explicit).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "hive-acid"


def cluster_package(cache: Path | None = None) -> Path:
    """The zip for ``--py-files``.

    :param cache: directory to build it in; :func:`cache_directory` by default.
    :return: path of the zip; its name carries version and content, so that an old one is never taken for a new one.
    """
    files = _files()
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.relative_to(_ROOT.parent).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    name = f"airflow_hive_acid-{airflow_hive_acid.__version__}-{digest.hexdigest()[:12]}.zip"
    target = (cache or cache_directory()) / name
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        _build(files, target)
    return target


def _files() -> list[Path]:
    rooms = [path for room in _ROOMS for path in (_ROOT / room).rglob("*.py")]
    return sorted([*(_ROOT / name for name in _MODULES), *rooms])


def _build(files: list[Path], target: Path) -> None:
    """Written beside its place and moved there: two processes may build it at once."""
    handle, temporary = tempfile.mkstemp(dir=target.parent, suffix=".zip.tmp")
    try:
        with os.fdopen(handle, "wb") as raw, zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in files:
                entry = zipfile.ZipInfo(path.relative_to(_ROOT.parent).as_posix(), _TIME)
                entry.external_attr = 0o644 << 16
                archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
