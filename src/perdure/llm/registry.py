"""Models by the name of their backend."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import msgspec

from perdure.base.errors import EnvironmentFault, Refused
from perdure.disk.home import StateHome
from perdure.llm import MODELS
from perdure.llm.keys import find_key, need_key
from perdure.llm.protocol import Model
from perdure.llm.transport import IDLE_S, Endpoint

_BASE_URLS = {
    "openai": ("OPENAI_BASE_URL",),
    "anthropic": ("ANTHROPIC_BASE_URL",),
    "openai-compatible": ("PERDURE_BASE_URL", "OPENAI_BASE_URL"),
}


class LibraryMissing(EnvironmentFault):
    """A backend needs a package that is not installed."""

    code = "library_missing"


class Choice(msgspec.Struct, frozen=True):
    """A model at a backend; "" is the one that would be used anyway."""

    backend: str
    model: str


def parse_choice(word: str) -> Choice:
    """A word of a list of fallbacks: `BACKEND:MODEL`, a backend alone, or a model alone. Raises `Refused` for an empty one."""
    text = word.strip()
    backend, mark, model = text.partition(":")
    if text in MODELS:
        return Choice(text, "")
    if mark and backend in MODELS:
        return Choice(backend, model.strip())
    if not text:
        raise Refused("A fallback is empty.", hint=f"Write BACKEND:MODEL; backends are {', '.join(MODELS)}.")
    return Choice("", text)


def find_model(
    name: str, *, base_url: str = "", environ: Mapping[str, str], home: StateHome | None, idle_s: float = IDLE_S
) -> Model:
    """The adapter of a backend, with its key and place. Nothing is sent before its first turn; `close` it.

    `base_url` beats the environment; `idle_s` is the longest silence of a provider, in seconds. Raises `Refused` for an unknown
    name or a bad URL, `KeyMissing`, `UnsafeKeyFile`, or `LibraryMissing`.
    """
    if name not in MODELS:
        raise Refused(f"There is no model backend {name!r}.", hint=f"Known: {', '.join(MODELS)}.")
    if name == "local":
        from perdure.llm.local import LocalModel

        return LocalModel(idle_s=idle_s)
    endpoint = _endpoint(name, base_url, environ, home, idle_s)
    if name == "openai-compatible":
        from perdure.llm.openai_chat import ChatModel

        return ChatModel(endpoint)
    try:
        return _vendors_model(endpoint)
    except ModuleNotFoundError as error:
        if error.name not in MODELS:
            raise
        raise LibraryMissing(
            f"The backend {name} needs the package {error.name}, which is not installed.",
            hint=f"`pip install 'perdure[{name}]'` installs it.",
        ) from error


def check_model_backend(name: str, *, base_url: str = "", environ: Mapping[str, str], home: StateHome | None) -> None:
    """What `find_model` would raise for want of a key, a place or the local model, without making anything."""
    if name == "local":
        from perdure.llm.local import find_weights

        find_weights()
    else:
        _endpoint(name, base_url, environ, home, IDLE_S)


def _endpoint(name: str, base_url: str, environ: Mapping[str, str], home: StateHome | None, idle_s: float) -> Endpoint:
    """Where a provider is, and its key. Raises `Refused` when it cannot be asked from here."""
    url = _url(name, base_url, environ)
    if name != "openai-compatible":
        return Endpoint(name, url, need_key(name, environ, home), idle_s)
    if not url:
        raise Refused(
            "The backend openai-compatible needs a base URL.",
            hint="Set base_url under [backend], or PERDURE_BASE_URL, such as http://127.0.0.1:11434/v1.",
        )
    return Endpoint(name, url, find_key(name, environ, home), idle_s)


def _vendors_model(endpoint: Endpoint) -> Model:
    if endpoint.backend == "openai":
        from perdure.llm.openai import OpenAIModel

        return OpenAIModel(endpoint)
    from perdure.llm.anthropic import AnthropicModel

    return AnthropicModel(endpoint)


def url_from(name: str, environ: Mapping[str, str]) -> str:
    """The base URL that the environment has for a backend, "" for none."""
    return next((environ[each] for each in _BASE_URLS.get(name, ()) if environ.get(each)), "")


def _url(name: str, given: str, environ: Mapping[str, str]) -> str:
    named = given or url_from(name, environ)
    try:
        parts = urlsplit(named)
        is_fit = not named or (parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0)
    except ValueError:
        is_fit = False
    if not is_fit:
        raise Refused(
            f"{named[:200]!r} is no URL of a provider.", hint="Give one that begins with http:// or https://."
        )
    return named.rstrip("/")
