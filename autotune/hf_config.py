"""Model files people already have: Hugging Face `config.json` and dumps of Megatron arguments.

`model_from_hf` covers the decoder-only architectures listed by `supported()`. Everything else is refused by name: an
encoder, a state-space model or a model whose layers differ is never priced as a plain transformer.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from autotune.errors import InputError, did_you_mean
from autotune.hf.families_dense import DENSE
from autotune.hf.families_gpt import GPT
from autotune.hf.families_moe import MOE
from autotune.hf.family import Family
from autotune.hf.hub import is_hub_name, load_hub_config
from autotune.hf.mapping import to_spec
from autotune.hf.megatron import looks_like_megatron, model_from_megatron
from autotune.hf.reader import Reader
from autotune.hf.refusals import check_supported
from autotune.specs import ModelSpec

__all__ = [
    "is_hub_name",
    "load_hub_config",
    "looks_like_hf",
    "looks_like_megatron",
    "model_from_hf",
    "model_from_megatron",
    "supported",
]

FAMILIES: dict[str, Family] = {**DENSE, **GPT, **MOE}

# Wrappers of a text model and another modality, and the key of the text part.
_TEXT_PARTS = ("text_config", "llm_config", "language_config")
# Written before configurations carried `model_type`, or by code with another spelling.
_BY_CLASS = {"grok1modelforcausallm": "grok-1", "rwforcausallm": "refinedweb", "baichuanforcausallm": "baichuan"}


def supported() -> list[str]:
    """The `model_type` values that can be priced, sorted.

    >>> "llama" in supported(), "mamba" in supported()
    (True, False)
    """
    return sorted(FAMILIES)


def looks_like_hf(data: Any) -> bool:
    """Is this mapping a Hugging Face configuration?

    >>> looks_like_hf({"model_type": "llama"}), looks_like_hf({"num_layers": 2, "hidden_size": 8})
    (True, False)
    """
    return isinstance(data, dict) and bool({"model_type", "architectures", "text_config", "num_hidden_layers"} & data.keys())


def model_from_hf(data: dict[str, Any], file: str = "", name: str = "") -> ModelSpec:
    """The `ModelSpec` of a Hugging Face `config.json`.

    The sequence length is the model's longest, but at most 8192 (training at the longest length a model was extended to
    is the exception); what was assumed is in `description`. Raises InputError: missing keys, or an architecture that
    cannot be priced.

    >>> spec = model_from_hf({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
    ...                       "vocab_size": 50257})
    >>> spec.num_layers, spec.ffn_hidden_size, spec.untie_embeddings_and_output_weights
    (12, 3072, False)
    """
    if not isinstance(data, dict):
        raise InputError.of("a model configuration must be a mapping of keys to values", file=file)
    reader = _text_part(Reader(data, file))
    kind = _kind(reader)
    check_supported(reader)
    family = FAMILIES.get(kind)
    if family is None:
        hint = did_you_mean(kind, supported())
        raise InputError.of(
            f"architecture '{kind[:60]}' is not known{hint}; write its shape as a model.yaml with Megatron's argument names",
            file=file,
            key="model_type",
        )
    reader.notes.insert(0, f"from a Hugging Face configuration of type {kind}")
    return to_spec(reader, family, name or _name(data, kind, file))


def _text_part(reader: Reader) -> Reader:
    """The reader of the language model inside a multi-modal configuration, or the reader itself."""
    check_supported(reader)
    for key in _TEXT_PARTS:
        if isinstance(reader.data.get(key), dict):
            inner = reader.inner(key)
            around = ("tie_word_embeddings", "model_type", "architectures", "vocab_size")
            inner.around = {k: reader.data[k] for k in around if k in reader.data}
            inner.notes.append("text part only, without the vision or audio tower")
            return inner
    return reader


def _kind(reader: Reader) -> str:
    kind = reader.text("model_type").lower()
    if kind:
        return kind
    classes = reader.raw("architectures")
    first = str(classes[0]).lower() if isinstance(classes, list) and classes else ""
    if first in _BY_CLASS:
        return _BY_CLASS[first]
    stem = first.removesuffix("forcausallm").removesuffix("lmheadmodel")
    plain = {k.replace("_", "").replace("-", ""): k for k in FAMILIES}
    if stem in plain:
        return plain[stem]
    if reader.has("architectures"):
        raise reader.refuse(f"the architecture {first[:60]!r} is not known", "architectures")
    raise InputError.of("missing: it names the architecture (llama, gpt2, ...)", file=reader.file, key="model_type")


def _name(data: dict[str, Any], kind: str, file: str) -> str:
    for key in ("_name_or_path", "name"):
        value = data.get(key)
        if isinstance(value, str) and value.strip("/. "):
            return value.strip("/").split("/")[-1]
    path = PurePath(file)
    if path.stem in ("", "config"):
        return path.parent.name or kind
    return path.stem
