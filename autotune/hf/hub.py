"""`hf://org/name`: the `config.json` of a model on the Hugging Face hub, through `huggingface_hub` when it is installed.

Only `config.json` is read; no weights and no code are fetched. Without a network the local cache is used; when that
has no copy the error says which file is missing and where to put it.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from autotune.errors import InputError

PREFIX = "hf://"
LARGEST_CONFIG_BYTES = 4_000_000
LONGEST_WAIT_S = 8.0
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,95}(/[A-Za-z0-9][\w.-]{0,95})?(@[\w.-]{1,80})?\Z")


def is_hub_name(text: str) -> bool:
    """Does the text ask for a model on the hub (`hf://org/name`)?

    >>> is_hub_name("hf://org/name"), is_hub_name("model.yaml")
    (True, False)
    """
    return text.startswith(PREFIX)


def load_hub_config(text: str) -> tuple[dict[str, Any], str]:
    """(configuration, path of the cached file) of `hf://org/name` or `hf://org/name@revision`.

    Raises InputError when the name is malformed, `huggingface_hub` is missing, or the file is neither cached nor
    reachable.
    """
    name = text.removeprefix(PREFIX).strip("/")
    if not _NAME.match(name):
        raise InputError.of(f"'{text[:120]}' is not of the form hf://org/name")
    path = _fetch(*name.partition("@")[::2])
    if os.path.getsize(path) > LARGEST_CONFIG_BYTES:
        raise InputError.of(f"larger than {LARGEST_CONFIG_BYTES} bytes, which no configuration is", file=path)
    try:
        with open(path, encoding="utf-8") as f:
            data = json.load(f)
    except (ValueError, RecursionError) as error:
        raise InputError.of(f"not valid JSON: {error}", file=path) from None
    if not isinstance(data, dict):
        raise InputError.of("a model configuration must be a mapping of keys to values", file=path)
    return data, path


def _fetch(name: str, revision: str) -> str:
    advice = (
        f"fetch https://huggingface.co/{name}/resolve/{revision or 'main'}/config.json yourself, save it as "
        f"{name.split('/')[-1]}/config.json, and give that folder; or use a shipped preset (`autotune list models`)"
    )
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")  # its retries are not the user's business
    try:
        import huggingface_hub  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise InputError.of(f"hf://{name} needs the package huggingface_hub (pip install huggingface_hub); or {advice}") from None
    reason = ""
    for local_only in (True, False):
        fetch = partial(
            huggingface_hub.hf_hub_download, name, "config.json", revision=revision or None, local_files_only=local_only
        )
        path, reason = _within(LONGEST_WAIT_S, fetch)
        if path:
            return path
    raise InputError.of(f"hf://{name} is not cached and the hub cannot be reached (offline? {reason}); {advice}")


def _within(limit_s: float, fetch: Callable[[], str]) -> tuple[str, str]:
    """(result, "") of a call, or ("", reason). The client retries for long on a machine without a route; this waits
    no longer than `limit_s` and leaves the rest to a thread that ends with the process."""
    outcome: list[tuple[str, str]] = []

    def work() -> None:
        try:
            outcome.append((str(fetch()), ""))
        except Exception as error:  # the client has a dozen error types and wraps others' (requests, httpx, OSError)
            outcome.append(("", type(error).__name__))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(limit_s)
    return outcome[0] if outcome else ("", f"no answer in {limit_s:g} s")
