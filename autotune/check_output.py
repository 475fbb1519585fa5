"""A verdict for people."""

from __future__ import annotations

from typing import Any

_MODEL_KEYS = (
    "num_layers", "hidden_size", "ffn_hidden_size", "num_attention_heads", "num_query_groups", "kv_channels", "seq_length", "vocab_size", "num_experts",
    "moe_router_topk", "moe_ffn_hidden_size",
)


def show(document: dict[str, Any]) -> None:
    """Print a verdict: what was recovered, what was assumed, what is wrong, and what would help."""
    from autotune.output import console, table

    out = console()

    def say(text: str) -> None:
        out.print(text, markup=False, soft_wrap=True)

    if "recovered" in document:
        _recovered(document["recovered"], say)
    plan = document["plan"] or {}
    say("plan: " + ", ".join(f"{k} {v}" for k, v in _plan_facts(plan)))
    for item in document["violations"]:
        near = "; ".join(f"nearest legal {k}: {' or '.join(map(str, v))}" for k, v in item["nearest"].items())
        say(f"ILLEGAL  {item['rule']}: {item['message']}" + (f" ({near})" if near else ""))
    if document["legal"]:
        say("legal")
    if document["memory_GiB"] is None:
        say("not priced: " + document["why"])
    else:
        memory = document["memory_GiB"]
        state = "fits" if document["fits"] else "DOES NOT FIT"
        say(f"{state}: {memory['peak']:.1f} of {memory['capacity']:.1f} GiB on the fullest GPU")
        rows = [[i, f"{s['weights']:.1f}", f"{s['optimizer'] + s['gradients']:.1f}", f"{s['activations']:.1f}", f"{s['total']:.1f}"] for i, s in _stages(memory["by_stage"])]
        out.print(table("memory per stage, GiB", ["stage", "weights", "gradients+optimizer", "activations", "total"], rows, right={1, 2, 3, 4}))
        rail = document["rail"]
        carried = "; this fabric carries it" if rail["compatible"] else "; this fabric does not carry it"
        say("rail-clean: every group stays in its HB domain or on rails" if rail["clean"] else "NOT rail-clean: " + "; ".join(rail["reasons"]) + carried)
        say(f"{document['iteration_time_s']:.4g} s per iteration, {document['tokens_per_s_per_gpu']:,.0f} tokens/s per GPU, MFU {document['mfu']:.1%}")
    if document["best"]:
        gap = document["gap"]
        distance = "" if gap is None else f"; this plan takes {gap:+.1%}" if abs(gap) >= 0.0005 else "; this plan is as fast"
        say(f"best on these GPUs: {document['best']['iteration_time_s']:.4g} s per iteration{distance}")
    for item in document["advice"][:6]:
        say(f"advice: {item['text']}")


def _recovered(found: dict[str, Any], say: Any) -> None:
    launch, model = found["launch"], found["model"]
    derived = set(found["derived"])

    def shown(key: str, value: Any) -> str:
        return f"{key} {value}" + ("*" if key in derived else "")

    say(f"read as {found['kind']}: " + ", ".join(shown(k, v) for k, v in launch.items() if v is not None))
    say("model: " + ", ".join(shown(k, model[k]) for k in _MODEL_KEYS if model.get(k) is not None) + "   (* derived or default)")
    for text in found["assumed"]:
        say(f"assumed: {text}")
    for text in found["notes"]:
        say(f"note: {text}")


def _plan_facts(plan: dict[str, Any]) -> list[tuple[str, Any]]:
    ones = ("context_parallel", "expert_parallel", "expert_tensor_parallel", "virtual_stages")
    keys = (
        "tensor_parallel", "pipeline_parallel", "data_parallel", *ones, "micro_batch_size", "global_batch_size", "micro_batches", "sequence_parallel",
        "recompute", "zero_stage", "hb_domain_size", "nic_Gbps", "fabric", "stack",
    )
    return [(k, plan[k]) for k in keys if k in plan and not (k in ones and plan[k] == 1)]


def _stages(stages: list[dict[str, float]]) -> list[tuple[int, dict[str, float]]]:
    """The first, second, last, and every stage unlike the one before."""
    keep = {0, 1, len(stages) - 1} | {i for i in range(1, len(stages)) if abs(stages[i]["total"] - stages[i - 1]["total"]) > 0.05}
    return [(i, stages[i]) for i in sorted(keep) if i < len(stages)][:12]
