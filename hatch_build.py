"""Build hook: a wheel or an sdist that is made in the standard way carries the accelerator jars, or is not made.

There is a jar for each Spark. They are compiled against Spark's jars (a few hundred MB), which a build environment
does not have; so they are built before, in the checkout (``make dist`` does both), go into the sdist beside their
sources, and from there into the wheel. A missing or outdated jar is an error and no warning, because installers hide
what a build prints, and who gets such a wheel would only notice that jobs are slow.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WITHOUT = "HIVE_ACID_BUILD_WITHOUT_ACCELERATOR"


class AcceleratorHook(BuildHookInterface):
    """Looks at the jars before an sdist or a wheel is made; an editable installation uses the checkout's."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Refuse to build without the jars that belong to these sources.

        :param version: ``standard`` or ``editable``.
        :raises RuntimeError: says what is wrong with a jar, and the remedy.
        """
        if version == "editable" or os.environ.get(WITHOUT):
            return
        fault = self._build_accelerator().fault_of_jars()
        if fault is not None:
            raise RuntimeError(
                f"the accelerator jar {fault}. Run 'make dist' in a checkout (needs a JDK 17 and Maven), or 'make "
                f"accelerators' before this build. To build without, for jobs that are slower, set {WITHOUT}=1"
            )

    def _build_accelerator(self) -> Any:
        path = Path(self.root) / "scripts" / "build_accelerator.py"
        spec = importlib.util.spec_from_file_location("build_accelerator", path)
        assert spec is not None and spec.loader is not None, path  # noqa: S101, PT018
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
