"""Build hook: a wheel or an sdist that is made in the standard way carries the accelerator jar, or is not made.

The jar is compiled against Spark's jars (a few hundred MB), which a build environment does not have; so it is built
before, in the checkout (``make dist`` does both), goes into the sdist beside its sources, and from there into the
wheel. A missing or outdated jar is an error and no warning, because installers hide what a build prints, and who
gets such a wheel would only notice that jobs are slow.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WITHOUT = "HIVE_ACID_BUILD_WITHOUT_ACCELERATOR"


class AcceleratorHook(BuildHookInterface):
    """Looks at the jar before an sdist or a wheel is made; an editable installation uses the checkout's."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Refuse to build without a jar that belongs to these sources.

        :param version: ``standard`` or ``editable``.
        :raises RuntimeError: says what is wrong with the jar, and the remedy.
        """
        if version == "editable" or os.environ.get(WITHOUT):
            return
        fault = self._build_accelerator().fault_of_jar()
        if fault is not None:
            raise RuntimeError(
                f"the accelerator jar {fault}. Run 'make dist' in a checkout (needs a JDK 17), or 'make accelerator' "
                f"before this build. To build without it, for jobs that are slower, set {WITHOUT}=1"
            )

    def _build_accelerator(self) -> Any:
        path = Path(self.root) / "scripts" / "build_accelerator.py"
        spec = importlib.util.spec_from_file_location("build_accelerator", path)
        assert spec is not None and spec.loader is not None, path  # noqa: S101, PT018
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
