"""InternEvo configurations: Python files that only assign. Read with `ast`; nothing is imported or run."""

from __future__ import annotations

import ast
from typing import Any

from autotune.reader.flags import integer
from autotune.reader.recovered import Recovered

_CALLS: dict[str, Any] = {"int": int, "float": float, "bool": bool, "max": max, "min": min}
_OPERATORS: dict[type, Any] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.Div: lambda a, b: a / b, ast.FloorDiv: lambda a, b: a // b,
}


class _Unknown(Exception):
    """An expression that only Python itself could evaluate."""


def assignments(text: str) -> dict[str, Any] | None:
    """Top-level assignments with literal values, arithmetic, `dict(...)` and earlier names; None if it is not Python.

    >>> assignments("H = 4 * 1024\\nmodel = dict(hidden=H, x=open('f'))\\nimport os")
    {'H': 4096, 'model': {'hidden': 4096}}
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name):
            try:
                names[statement.targets[0].id] = _value(statement.value, names, 0)
            except (_Unknown, ZeroDivisionError, TypeError, ValueError, OverflowError, KeyError, IndexError):
                continue
    return names


def _value(node: ast.expr, names: dict[str, Any], depth: int) -> Any:
    if depth > 30:
        raise _Unknown
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name) and node.id in names:
        return names[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(e, names, depth + 1) for e in node.elts]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, names, depth + 1)
    if isinstance(node, ast.BinOp):
        return _binary(node, names, depth)
    if isinstance(node, ast.Dict):
        return {str(_value(k, names, depth + 1)): _value(v, names, depth + 1) for k, v in zip(node.keys, node.values, strict=True) if k is not None}
    if isinstance(node, ast.Subscript):
        return _value(node.value, names, depth + 1)[_value(node.slice, names, depth + 1)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return _call(node, names, depth)
    raise _Unknown


def _call(node: ast.Call, names: dict[str, Any], depth: int) -> Any:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name == "dict":
        result = {}
        for keyword in node.keywords:
            try:
                result[str(keyword.arg)] = _value(keyword.value, names, depth + 1)
            except _Unknown:
                continue
        return result
    if name in _CALLS and not node.keywords:
        return _CALLS[name](*[_value(a, names, depth + 1) for a in node.args])
    raise _Unknown


def _binary(node: ast.BinOp, names: dict[str, Any], depth: int) -> Any:
    a, b = _value(node.left, names, depth + 1), _value(node.right, names, depth + 1)
    if isinstance(node.op, ast.Pow) and isinstance(a, int | float) and isinstance(b, int) and abs(a) < 1e6 and 0 <= b < 64:
        return a**b
    operator = _OPERATORS.get(type(node.op))
    if operator is None or not all(isinstance(x, int | float) and abs(x) < 1e18 for x in (a, b)):
        raise _Unknown
    return operator(a, b)


def is_internevo(names: dict[str, Any] | None) -> bool:
    """Whether assignments are an InternEvo configuration."""
    return bool(names) and all(isinstance(names.get(k), dict) for k in ("model", "data", "parallel"))  # type: ignore[union-attr]


def interpret(found: Recovered, names: dict[str, Any]) -> Recovered:
    """Read the `model`, `data` and `parallel` assignments."""
    model, data, parallel, p = names["model"], names["data"], names["parallel"], found.plan
    for key, source in (("num_layers", "num_layers"), ("hidden_size", "hidden_size"), ("num_attention_heads", "num_attention_heads"),
                        ("num_query_groups", "num_kv_attention_heads"), ("vocab_size", "vocab_size")):
        value = integer(model.get(source))
        if value:
            found.model[key] = value
    found.model["seq_length"] = integer(data.get("seq_len"))
    ratio = model.get("mlp_ratio")
    if isinstance(ratio, int | float) and found.model.get("hidden_size"):
        found.derive("model", "ffn_hidden_size", -(-int(found.model["hidden_size"] * ratio) // 256) * 256)
    found.model.update(swiglu=True, normalization="RMSNorm", add_bias_linear=False, untie_embeddings_and_output_weights=True)
    experts = integer(model.get("num_experts"))
    if experts and experts > 1:
        found.model["num_experts"] = experts
        found.model["moe_router_topk"] = integer(model.get("top_k") or (names.get("moe") or {}).get("top_k")) or 2
    tensor = _size(parallel.get("tensor"))
    p["tensor_parallel"] = max(1, tensor or 1)
    p["pipeline_parallel"] = max(1, _size(parallel.get("pipeline")) or 1)
    p["sequence_parallel"] = isinstance(parallel.get("tensor"), dict) and parallel["tensor"].get("mode") in ("msp", "fsp")
    zero1 = _size(parallel.get("zero1"))
    fsdp = isinstance(parallel.get("zero1"), dict) and parallel["zero1"].get("fsdp") is True
    found.derive("plan", "zero_stage", 3 if fsdp else 0 if zero1 == 1 else 1)
    p["distributed_optimizer"] = p["zero_stage"] > 0
    p["micro_batch_size"] = integer(data.get("micro_bsz"))
    p["gradient_accumulation"] = integer(data.get("micro_num")) or 1
    checkpoint = model.get("checkpoint")
    found.derive("plan", "recompute", "full" if checkpoint is True or (isinstance(checkpoint, int | float) and checkpoint > 0) else "none")
    p["precision"] = "fp16" if "16" in str(model.get("dtype")) and "bfloat" not in str(model.get("dtype")) else "fp32" if "32" in str(model.get("dtype")) else "bf16"
    return found


def _size(value: Any) -> int | None:
    return integer(value.get("size")) if isinstance(value, dict) else integer(value)
