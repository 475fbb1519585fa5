"""How layers are spread over pipeline stages: virtual stages, first and last counts, layout strings, partition methods."""

from __future__ import annotations

import re

from autotune.legality import nearest_divisors
from autotune.reader.flags import Flags
from autotune.reader.recovered import Recovered
from autotune.specs import MAX_GPUS


def read(found: Recovered, flags: Flags) -> None:
    """Stage layers and virtual stages from Megatron's flags, with the rules that tie these flags to each other."""
    plan, layers = found.plan, found.model.get("num_layers")
    stages = plan.get("pipeline_parallel") or 1
    if not 1 <= stages <= MAX_GPUS:
        return  # refused when all counts are checked
    first = flags.number(found, "decoder_first_pipeline_num_layers", "num_layers_in_first_pipeline_stage", wanted=False)
    last = flags.number(found, "decoder_last_pipeline_num_layers", "num_layers_in_last_pipeline_stage", wanted=False)
    for key, value in (("pipeline_first_stage_layers", first), ("pipeline_last_stage_layers", last)):
        if value:
            plan[key] = value
    layout = flags.text("pipeline_model_parallel_layout")
    account = [n for n in ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split") if flags.on(n)]
    per_chunk = flags.number(found, "num_layers_per_virtual_pipeline_stage", wanted=False)
    chunks = flags.number(found, "num_virtual_stages_per_pipeline_rank", "virtual_pipeline_model_parallel_size", wanted=False)
    if sum(x is not None and x is not False for x in (per_chunk, chunks, layout)) > 1:
        found.violate("virtual_stages_given_twice", "virtual stages are given by more than one flag; the parser takes one of them")
    if layout and layers:
        _layout(found, layout, stages, layers)
        return
    if not layers:
        if chunks and chunks > 1:
            plan["virtual_stages"] = chunks
        return
    if "embedding" in (flags.text("pp_partition_method") or ""):
        _with_ends(found, layers, stages, embedding=True, loss=True)
    elif account:
        _with_ends(found, layers, stages, account[0].startswith("account_for_embedding"), "loss" in account[-1])
        if first or last:
            found.violate("uneven_split_given_twice", "first/last stage counts cannot be combined with the account-for flags")
    elif layers % stages and not (first or last) and found.target == "megatron":
        found.violate(
            "layers_per_stage",
            f"num_layers {layers} is not divisible by pipeline_parallel {stages}, and no uneven split is given",
            pipeline_parallel=nearest_divisors(layers, stages),
        )
    if per_chunk:
        per_stage = layers // stages
        if per_stage % per_chunk:
            found.violate("layers_per_chunk", f"{per_stage} layers of a stage are not a multiple of {per_chunk} per virtual stage")
        chunks = max(1, per_stage // per_chunk)
    if chunks and chunks > 1:
        plan["virtual_stages"] = chunks


def _with_ends(found: Recovered, layers: int, stages: int, embedding: bool, loss: bool) -> None:
    """Embedding and loss count as a layer each at the two ends."""
    units = layers + embedding + loss
    if units % stages or stages == 1:
        if stages > 1:
            found.violate("layers_per_stage", f"{units} layers, embedding and loss counted, do not divide over {stages} stages")
        return
    split = [units // stages] * stages
    split[0] -= embedding
    split[-1] -= loss
    found.derive("plan", "stage_layers", split)


def _layout(found: Recovered, layout: str, stages: int, layers: int) -> None:
    """`E|t*3|(tt|)*5tL`: virtual stages in order, dealt to the ranks in turn."""
    expanded = expand_layout(layout)
    parts = expanded.split("|")
    if len(parts) % stages:
        found.violate("layout_stages", f"the pipeline layout has {len(parts)} stages, not a multiple of pipeline_parallel {stages}")
        return
    counts = [part.count("t") for part in parts]
    if sum(counts) != layers:
        found.violate("layout_layers", f"the pipeline layout holds {sum(counts)} decoder layers, the model has {layers}")
    if expanded.count("E") != 1 or expanded.count("L") != 1 or not expanded.startswith("E") or not expanded.endswith("L"):
        found.violate("layout_ends", "the pipeline layout must start with the embedding E and end with the loss L, once each")
    found.derive("plan", "stage_layers", [sum(counts[i::stages]) for i in range(stages)])
    if len(parts) > stages:
        found.derive("plan", "virtual_stages", len(parts) // stages)


def expand_layout(layout: str) -> str:
    """A layout string with its repetitions written out.

    >>> expand_layout("Et*2|(tt|)*2tL")
    'Ett|tt|tt|tL'
    """
    text = re.sub(r"[\s,']", "", layout)
    for _ in range(20):
        new = re.sub(r"\(([^()]*)\)\*(\d{1,4})", lambda m: (m[1] * int(m[2]))[:20_000], text)[:50_000]
        if new == text:
            break
        text = new
    return re.sub(r"(\w)\*(\d{1,4})", lambda m: m[1] * int(m[2]), text)[:50_000]
