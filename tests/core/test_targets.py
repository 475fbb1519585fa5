"""Each launch target's search proposes only plans that its emitter accepts."""

from __future__ import annotations

import pytest
from cases import cluster_spec, hardware_of, lattice_of, model_spec, random_points, setting_of

from autotune.emit import TARGETS, emit
from autotune.errors import InfeasibleError
from autotune.plan_points import plan_of
from autotune.search import SearchOptions, search
from autotune.setting import target_rules
from searchspaces.legality import point_reason

# What stands in launch files is tested elsewhere; torchtitan runs only architectures it ships.
LLAMA = {
    "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_query_groups": 8, "ffn_hidden_size": 14336, "vocab_size": 128256,
    "seq_length": 8192, "rotary_base": 500000, "window_size": None,
}  # fmt: skip
CASES = [(target, kind) for target in TARGETS for kind in ("dense", "moe", "mla", "alternating") if target != "torchtitan"]
CASES += [("torchtitan", "gqa"), ("megatron", "gqa")]


FEW = {"context_parallel": [1, 2], "virtual_stages": [1, 2], "expert_tensor_parallel": [1, 2], "micro_batch_size": [1, 2, 4]}


def spec(target: str, kind: str):
    return model_spec(kind, 48, search=FEW, **({"qk_layernorm": False, **LLAMA} if target == "torchtitan" else {}))


@pytest.mark.parametrize(("target", "kind"), CASES)
def test_legal_points_of_a_target_can_be_emitted(target, kind):
    cluster, model = cluster_spec(24), spec(target, kind)
    hw, lattice = hardware_of(cluster, model, target_rules(target)), lattice_of(cluster, model)
    emitted = 0
    for cell, index in random_points(lattice, 30_000, 5):
        point = lattice.point(cell, index)
        mode = int(lattice.axes.recompute[lattice.decode(index)[5]])
        if point_reason(hw.model, hw.rules, hw.gpus, hw.batch, *cell, mode, point) == 0:
            plan = plan_of(point, model.num_layers, setting_of(cluster, model), cluster.stack)
            assert emit(target, cluster, model, plan), plan
            emitted += 1
            if emitted == 60:
                break
    needs = bool(model.num_experts) and not target_rules(target).expert
    assert emitted == 0 if needs else emitted > 5


@pytest.mark.parametrize("target", ["megatron-lm-2023", "megatron-deepspeed"])
def test_a_target_without_experts_finds_nothing_for_a_model_with_experts(target):
    with pytest.raises(InfeasibleError) as caught:
        search(cluster_spec(8), model_spec("moe", 8, search={"virtual_stages": 1}), SearchOptions(target=target, jobs=1))
    assert caught.value.details["rejected"].keys() == {"target"}


@pytest.mark.parametrize("target", ["megatron", "deepspeed", "megatron-deepspeed"])
def test_the_best_plans_of_a_target_can_be_emitted(target):
    cluster, model = cluster_spec(16, "rail-only"), model_spec("dense", 32)
    for found in search(cluster, model, SearchOptions(target=target, top=5, jobs=1)).plans:
        assert found.reason == "" and found.rail["compatible"]
        assert emit(target, cluster, model, found.plan)
