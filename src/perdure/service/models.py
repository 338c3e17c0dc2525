"""What models there are, and the keys that must not be written."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from perdure.disk.home import find_state_home

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perdure.llm.protocol import ModelInfo


def list_models(backend: str, base_url: str, given: str | None, environ: Mapping[str, str]) -> list[ModelInfo]:
    """What a backend offers, in its provider's order. `base_url` "" takes the one of the environment or of the person's settings.

    Nothing is written. Raises `Refused`, `ModelError`, or `EnvironmentFault` when something is not installed.
    """
    from perdure.llm.registry import find_model, url_from

    home = find_state_home(given, environ)
    url = base_url or url_from(backend, environ)
    if not url and os.path.exists(home.settings):
        from perdure.graph.config import read_config

        found = read_config(home.settings)
        config = found[0] if found else None
        url = config.base_url if config is not None and config.backend in ("", backend) else ""

    async def ask() -> list[ModelInfo]:
        model = find_model(backend, base_url=url, environ=environ, home=home)
        try:
            return await model.models()
        finally:
            await model.close()

    return asyncio.run(ask())
