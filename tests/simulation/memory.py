"""A warehouse in memory: its operations are steps of a simulation, and it can be absent, full, slow, torn or stale."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from airflow_hive_acid.filesystem import FileInfo
from airflow_hive_acid.format import paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .scheduler import Scheduler

Node = dict[str, Any]
"""A directory: by name another one, or the text of a file."""


class MemoryFilesystem:
    """A :class:`~airflow_hive_acid.filesystem.Filesystem`; POSIX rules, one tree.

    :ivar fault: what is wrong now: ``absent`` (nothing is there), ``empty`` (the disk is not mounted: the warehouse is
        an empty directory), ``broken``, ``full``, ``slow``, ``stale`` (what was deleted is listed) or nothing.
    :ivar changed: called after each change with the path, for whoever checks.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.root: Node = {}
        self.fault = ""
        self.changed: Callable[[tuple[str, ...]], None] = lambda _: None
        self._ghosts: dict[tuple[str, ...], Node | str] = {}

    # --- the tree -------------------------------------------------------------------------------------------------

    def node(self, parts: tuple[str, ...]) -> Node | str | None:
        """What is at a place, whatever the fault."""
        found: Any = self.root
        for part in parts:
            if not isinstance(found, dict) or part not in found:
                return None
            found = found[part]
        return found  # type: ignore[no-any-return]

    def _directory(self, parts: tuple[str, ...], uri: str) -> Node:
        node = self.node(parts)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", uri)
        if isinstance(node, str):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", uri)
        return node

    def _parent(self, parts: tuple[str, ...], uri: str) -> Node:
        return self._directory(parts[:-1], uri)

    def _begin(self, verb: str, uri: str, *, writes: bool = False) -> tuple[str, ...]:
        self._scheduler.step(f"{verb} {uri.rpartition('warehouse/')[2]}")
        if self.fault == "slow":
            self._scheduler.sleep(self._scheduler.random.choice((0.5, 5, 400)))
        if self.fault == "absent" or (self.fault == "empty" and len(paths.parse_location(uri).segments) > 2):
            raise FileNotFoundError(errno.ENOENT, "the disk is not mounted", uri)
        if self.fault == "broken":
            raise OSError(errno.EIO, "input/output error", uri)
        if self.fault == "full" and writes:
            raise OSError(errno.ENOSPC, "no space left on device", uri)
        return paths.parse_location(uri).segments

    # --- the protocol ---------------------------------------------------------------------------------------------

    def can_fence(self, uri: str) -> bool:
        return True

    def can_replace(self, uri: str) -> bool:
        return True

    def uploads(self, uri: str) -> None:
        return None

    def list_files(
        self, uri: str, recursive: bool = False, *, descend: Callable[[FileInfo], bool] | None = None
    ) -> list[FileInfo]:
        parts = self._begin("list", uri)
        found: list[FileInfo] = []
        base = uri.rstrip("/")

        def look(node: Node, prefix: str) -> None:
            for name, child in node.items():
                is_dir = isinstance(child, dict)
                relative = prefix + name
                info = FileInfo(f"{base}/{relative}", relative, 0 if is_dir else len(child), is_dir)
                found.append(info)
                if is_dir and recursive and (descend is None or descend(info)):
                    look(child, relative + "/")

        if self.fault == "empty":
            return []
        look(self._directory(parts, uri), "")
        if self.fault == "stale":
            for gone, node in self._ghosts.items():
                if gone[:-1] == parts and all(info.relative != gone[-1] for info in found):
                    is_dir = isinstance(node, dict)
                    found.append(FileInfo(f"{base}/{gone[-1]}", gone[-1], 0 if is_dir else len(node), is_dir))
        return sorted(found, key=lambda info: info.relative)

    def exists(self, uri: str) -> bool:
        try:
            parts = self._begin("exists", uri)
        except FileNotFoundError:
            return False
        return self.node(parts) is not None

    def rename_directory(self, source: str, target: str) -> None:
        self._move(source, target, directory=True)

    def rename(self, source: str, target: str) -> None:
        self._move(source, target, directory=False)

    def _move(self, source: str, target: str, *, directory: bool) -> None:
        self._begin(f"rename to {target.rpartition('warehouse/')[2]} from", source, writes=False)
        old, new = paths.parse_location(source).segments, paths.parse_location(target).segments
        node = self.node(old)
        if node is None or (directory and isinstance(node, str)):
            raise FileNotFoundError(errno.ENOENT, "no such directory", source)
        parent = self._parent(new, target)
        if new[-1] in parent:
            raise FileExistsError(errno.EEXIST, "exists already", target)
        parent[new[-1]] = self._parent(old, source).pop(old[-1])
        self.changed(old)
        self.changed(new)

    def gather(self, files: Mapping[str, str], target: str) -> None:
        self.make_directory(target)
        for name, source in files.items():
            self.rename(source, f"{target}/{name}")

    def copy_file(self, source: str, target: str) -> None:
        self.write_text(target, self.read_text(source))

    def replace_file(self, source: str, target: str) -> None:
        self._begin("replace", target, writes=True)
        old, new = paths.parse_location(source).segments, paths.parse_location(target).segments
        self._parent(new, target)[new[-1]] = self._parent(old, source).pop(old[-1])
        self.changed(new)

    def delete(self, uri: str, *, inside: str) -> bool:
        paths.require_inside(inside, uri)
        parts = self._begin("delete", uri)
        node = self.node(parts)
        if node is None:
            return False
        if isinstance(node, dict) and len(node) > 1:
            # Not in one step: who is killed in the middle leaves a part.
            first = next(iter(node))
            del node[first]
            self.changed(parts)
            self._begin("delete the rest of", uri)
            if self.node(parts) is None:
                return True
        self._ghosts[parts] = self._parent(parts, uri).pop(parts[-1])
        self.changed(parts)
        return True

    def delete_empty(self, uri: str, *, inside: str) -> bool:
        paths.require_inside(inside, uri)
        parts = self._begin("delete if empty", uri)
        if self.node(parts) != {}:
            return False
        self._parent(parts, uri).pop(parts[-1])
        self.changed(parts)
        return True

    def read_text(self, uri: str) -> str:
        parts = self._begin("read", uri)
        node = self.node(parts)
        if not isinstance(node, str):
            raise FileNotFoundError(errno.ENOENT, "no such file", uri)
        return node

    def read_range(self, uri: str, start: int, end: int) -> bytes:
        return self.read_text(uri).encode()[start:end]

    def write_text(self, uri: str, text: str) -> None:
        parts = self._begin("write", uri, writes=True)
        self._parent(parts, uri)[parts[-1]] = text
        self.changed(parts)

    def write_slowly(self, uri: str, text: str) -> None:
        """In two steps, as a job does: who is killed between them leaves half of it."""
        parts = self._begin("write half of", uri, writes=True)
        self._parent(parts, uri)[parts[-1]] = text[: len(text) // 2]
        self.changed(parts)
        self._begin("write", uri, writes=True)
        self._parent(parts, uri)[parts[-1]] = text
        self.changed(parts)

    def create_file(self, uri: str, text: str) -> None:
        parts = self._begin("create", uri, writes=True)
        parent = self._parent(parts, uri)
        if parts[-1] in parent:
            raise FileExistsError(errno.EEXIST, "exists already", uri)
        parent[parts[-1]] = text
        self.changed(parts)

    def make_directory(self, uri: str) -> None:
        parts = self._begin("mkdir", uri, writes=True)
        node = self.root
        for part in parts:
            child = node.setdefault(part, {})
            if isinstance(child, str):
                raise FileExistsError(errno.EEXIST, "a file has that name", uri)
            node = child
