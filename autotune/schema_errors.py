"""Turns pydantic's errors into problems a user can act on: plain words, file, line and key, all of them at once."""

from __future__ import annotations

import math
import types
import typing
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from autotune.errors import InputError, Problem, did_you_mean
from autotune.yaml_lines import MAX_NODES, Document, Path, dotted

Schema = TypeVar("Schema", bound=BaseModel)

# Names of Megatron-LM and common speech, and where this project keeps them.
_ELSEWHERE = {
    "tensor_model_parallel_size": "search.tensor_parallel",
    "pipeline_model_parallel_size": "search.pipeline_parallel",
    "context_parallel_size": "search.context_parallel",
    "expert_model_parallel_size": "search.expert_parallel",
    "batch_size": "training.global_batch_size",
    "num_key_value_heads": "num_query_groups",
    "intermediate_size": "ffn_hidden_size",
    "num_hidden_layers": "num_layers",
    "num_gpus": "gpus",
    "bandwidth": "hb_domain.bandwidth_GBps",
}
_MOST = 200  # faults examined; nobody reads more, and suggestions take time
_WHOLE = "a whole number"
_EXPECTED = {
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": _WHOLE,
    "float_type": "a number",
    "float_parsing": "a number",
    "boolean": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
}


def validated(schema: type[Schema], document: Document) -> Schema:
    """The document as `schema`, or an InputError that lists every problem."""
    data = document.data
    if data is None:
        raise InputError.of("is empty", document.file)
    if not isinstance(data, dict):
        kind = "a list" if isinstance(data, list) else "a single value"
        raise InputError.of(f"must be a mapping of keys to values, got {kind}", document.file, document.line_of(()))
    if _nodes(data) > MAX_NODES:
        raise InputError.of(f"holds more than {MAX_NODES:,} values", document.file)
    try:
        return schema.model_validate(data)
    except ValidationError as e:
        raise InputError(problems(e, schema, document)) from None


def _nodes(data: Any) -> int:
    """Values in a document, counted as far as the limit."""
    count, stack = 0, [data]
    while stack and count <= MAX_NODES:
        value = stack.pop()
        count += len(value)
        stack += [v for v in (value.values() if isinstance(value, dict) else value) if isinstance(v, (dict, list))]
    return count


def problems(error: ValidationError, schema: type[BaseModel], document: Document) -> list[Problem]:
    """One Problem per fault, in the order of the file."""
    found: dict[tuple[Path, str], None] = {}
    rejected: dict[Path, list[dict[str, Any]]] = {}
    explained: set[Path] = set()
    items = error.errors(include_url=False)
    for item in items[:_MOST]:
        path, branch = _locate(item, document.data)
        if branch is not None:
            at, kind = branch
            if kind != _kind(_value(document.data, at)):
                rejected.setdefault(at, []).append(dict(item))
                continue
            explained.add(at)
        for where, message in _messages(dict(item), path, schema, document.data):
            found[(where, message)] = None
    for at, refusals in rejected.items():
        if at not in explained:
            found[(at, _wrong_kind(refusals, _value(document.data, at)))] = None
    merged = _without_mistyped(_one_per_union(list(found)))
    result = [Problem(message, document.file, document.line_of(path), dotted(path)) for path, message in merged]
    result.sort(key=lambda p: p.line)
    if len(items) > _MOST:
        result.append(Problem(f"and about {len(items) - _MOST:,} more faults", document.file))
    return result


def _without_mistyped(found: list[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """Without 'X is required' where 'did you mean X?' already says so."""
    meant = {(*path[:-1], m.split("did you mean '")[1].split("'")[0]) for path, m in found if "did you mean '" in m}
    return [(path, m) for path, m in found if m != "is required" or path not in meant]


def _locate(item: Any, data: Any) -> tuple[Path, tuple[Path, str] | None]:
    """The path of keys in the file, and the branch of a union that pydantic tried there."""
    path: list[str | int] = []
    branch = None
    value = data
    location = item["loc"]
    for i, part in enumerate(location):
        if (
            isinstance(value, dict)
            and part in value
            or isinstance(value, list)
            and isinstance(part, int)
            and part < len(value)
        ):
            path.append(part)
            value = value[part]
        elif i == len(location) - 1 and item["type"] == "missing":
            path.append(part)
        else:
            branch = (tuple(path), _branch_kind(str(part)))
    return tuple(path), branch


def _branch_kind(label: str) -> str:
    if "list[" in label:
        return "list"
    last = label.rstrip("]").split(", ")[-1].split("[")[-1]
    return "mapping" if last[:1].isupper() or "dict" in label else "scalar"


def _kind(value: Any) -> str:
    return "mapping" if isinstance(value, dict) else "list" if isinstance(value, list) else "scalar"


def _value(data: Any, path: Path) -> Any:
    for part in path:
        data = data[part]
    return data


def _wrong_kind(items: list[dict[str, Any]], value: Any) -> str:
    wanted = list(dict.fromkeys(_EXPECTED[i["type"]] for i in items if i["type"] in _EXPECTED))
    return f"must be {' or '.join(wanted) or 'something else'}, got {show(value)}"


def _one_per_union(found: list[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """Of several 'must be ...' about one scalar (one per union branch), a single sentence."""
    texts: dict[Path, list[str]] = {}
    for path, message in found:
        texts.setdefault(path, []).append(message)
    merged = []
    for path, messages in texts.items():
        kinds = [m for m in messages if m.startswith("must be ") and ", got " in m]
        infinite = [m for m in messages if m.startswith("must be finite")]
        if infinite:
            messages = infinite[:1]
        elif len(kinds) > 1 and len(kinds) == len(messages):
            wanted = list(dict.fromkeys(m[len("must be ") :].split(", got ")[0] for m in kinds))
            messages = [f"must be {' or '.join(wanted)}, got {kinds[0].split(', got ', 1)[1]}"]
        merged += [(path, m) for m in messages]
    return merged


def _messages(item: dict[str, Any], path: Path, schema: type[BaseModel], data: Any) -> list[tuple[Path, str]]:
    kind, context, value = item["type"], item.get("ctx") or {}, item["input"]
    if kind == "inconsistent":
        return [((*path, key), message) for key, message in context["problems"]]
    if kind == "missing":
        return [(path, "is required")]
    if kind == "extra_forbidden":
        return [(path, "unknown key" + _suggest(path, schema, set(_value(data, path[:-1]))))]
    if kind in _EXPECTED:
        return [(path, f"must be {_EXPECTED[kind]}, got {show(value)}")]
    return [(path, _limit(kind, context, value, item["msg"]))]


def _limit(kind: str, context: dict[str, Any], value: Any, message: str) -> str:
    got = f", got {show(value)}"
    if kind == "finite_number" or isinstance(value, float) and not math.isfinite(value):
        return "must be finite" + got
    if kind in ("greater_than", "greater_than_equal"):
        return (
            f"must be at least {_number(context['ge'])}"
            if "ge" in context
            else f"must be above {_number(context['gt'])}"
        ) + got
    if kind in ("less_than", "less_than_equal"):
        limit = context["le"] if "le" in context else context["lt"]
        why = " (the largest cluster supported)" if limit == 1 << 20 else ""
        return f"must be at most {_number(limit)}{why}{got}"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    if kind in ("too_long", "string_too_long"):
        return f"is too long: at most {context['max_length']:,}"
    if kind == "literal_error":
        legal = [w.strip(" '") for w in context["expected"].replace(" or ", ", ").split(",")]
        return f"must be one of {', '.join(legal)}{got}{did_you_mean(str(value), legal)}"
    if kind == "value_error":
        return str(context["error"])
    return message[:1].lower() + message[1:] + got


def _suggest(path: Path, schema: type[BaseModel], present: set[str]) -> str:
    """What an unknown key was meant to be; keys the file has already are not suggested."""
    key = str(path[-1])[:100]
    parent = _schema_at(path[:-1], schema)
    known = [k for k in parent.model_fields if k not in present] if parent else []
    elsewhere = [p for p in _all_keys(schema) if p.split(".")[-1] == key]
    if elsewhere:
        return f" here; it belongs at '{elsewhere[0]}'"
    if key in _ELSEWHERE and _ELSEWHERE[key] in _all_keys(schema):
        return f" (did you mean '{_ELSEWHERE[key]}'?)"
    lowered = {k.lower(): k for k in known}
    if key.lower().replace("-", "_") in lowered:
        return f" (did you mean '{lowered[key.lower().replace('-', '_')]}'?)"
    near = [k for k in known if k.lower().startswith(key.lower() + "_")]
    if len(near) == 1:
        return f" (did you mean '{near[0]}'?)"
    return did_you_mean(key, known) or did_you_mean(key, _all_keys(schema)) or _legal(known)


def _legal(known: list[str]) -> str:
    return f"; known here: {', '.join(known)}" if 0 < len(known) <= 16 else ""


def nested_schemas(annotation: Any) -> list[type[BaseModel]]:
    """The schemas an annotation such as `str | GpuSpec | None` may hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if typing.get_origin(annotation) in (typing.Union, types.UnionType, list, typing.Annotated):
        return [s for a in typing.get_args(annotation) for s in nested_schemas(a)]
    return []


def _schema_at(path: Path, schema: type[BaseModel]) -> type[BaseModel] | None:
    current: type[BaseModel] | None = schema
    for part in path:
        if isinstance(part, int):
            continue
        if current is None or part not in current.model_fields:
            return None
        found = nested_schemas(current.model_fields[part].annotation)
        current = found[0] if found else None
    return current


def _all_keys(schema: type[BaseModel], prefix: str = "") -> list[str]:
    keys = []
    for name, info in schema.model_fields.items():
        keys.append(prefix + name)
        for nested in nested_schemas(info.annotation):
            keys += _all_keys(nested, f"{prefix}{name}.")
    return keys


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) and abs(value) < 10**15 else f"{value:g}"


def show(value: Any) -> str:
    """A value in few characters, for messages.

    >>> show([1, 2]), show(None), show(True), show("x" * 99)[:12]
    ('a list', 'nothing', 'true', "'xxxxxxxxxxx")
    """
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (dict, list)):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) >= 10**15:
        return f"a number of {len(str(abs(value))) if abs(value) < 10**400 else 'very many'} digits"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
