"""No file may crash the readers: whatever the bytes, the answer is a spec or an InputError with a message.

A corpus of good files is damaged in three ways: values replaced by unpleasant ones, lines moved about, bytes broken.
`AUTOTUNE_FUZZ_EXAMPLES` sets the number of examples per test (default 200).
"""

import copy
import json
import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autotune import catalogue
from autotune.cluster_checks import gpu_counts, gpu_of, hb_sizes
from autotune.constants import gpu_constants, model_constants, network_constants
from autotune.errors import InputError
from autotune.load import dump_yaml, load_calibration, load_cluster, load_model, load_plan
from autotune.plan import Plan
from autotune.yaml_lines import parse

EXAMPLES = int(os.environ.get("AUTOTUNE_FUZZ_EXAMPLES", "200"))
relaxed = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=EXAMPLES <= 200
)

PLAN = Plan(tensor_parallel=4, pipeline_parallel=2, data_parallel=8, global_batch_size=64, stage_layers=(16, 16))
HF = {
    "llama": {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256, "tie_word_embeddings": False, "max_position_embeddings": 8192,
        "rope_scaling": {"factor": 8.0, "rope_type": "llama3"}, "architectures": ["LlamaForCausalLM"],
    },
    "deepseek": {
        "model_type": "deepseek_v3", "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61,
        "num_attention_heads": 128, "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "n_group": 8,
        "topk_group": 4, "first_k_dense_replace": 3, "vocab_size": 129280, "tie_word_embeddings": False,
    },
    "megatron": {"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "padded_vocab_size": 1024, "seq_length": 128, "lr": 1e-4, "swiglu": True},
}  # fmt: skip


def corpus(kind):
    if kind in ("clusters", "models"):
        data = [catalogue.document(kind, name).data for name in catalogue.names(kind)]
        return data + (list(HF.values()) if kind == "models" else CLUSTERS)
    if kind == "plans":
        plan = PLAN.to_dict()
        return [plan, {"plans": [{**plan, "mfu": 0.4, "rail": {"groups": [1]}}], "seed": 0}, {"plan": plan}]
    return [{"gemm_efficiency": 0.7, "notes": "x"}, {"calibration": {"nic_efficiency": 0.9, "launch_us": 5.0}}]


CLUSTERS = [
    {
        "name": "x", "gpu": {"name": "g", "memory_GiB": 9, "hbm_GBps": 1e3, "bf16_TFLOPS": 100, "scale_up_GBps": 50, "sources": {"a": "b"}},
        "gpus": [8, 16], "hb_domain": {"size": [1, 8], "bandwidth_GBps": {"min": 1, "max": 9, "step": 2}},
        "network": {"fabric": "fat-tree", "nic_Gbps": [100, 200], "options": {"transport": "roce"}, "latency_us": 5},
        "prices": {"gpu_hour_usd": 2}, "failures": {"restart_s": 60}, "calibration": {"gemm_efficiency": 0.5}, "memory_reserve_GiB": 2,
    },
]  # fmt: skip

unpleasant = st.sampled_from(
    [
        None, True, False, 0, -1, 1, 2, 3, 7, 1.5, 1e-300, 1e300, float("nan"), float("inf"), -float("inf"), 2**31, 2**63, 2**64,
        10**25, 10**400, -(10**400), "", " ", "x", "1e9999", "0x", "nan", "-", "\u00e9\u4e2d", "a" * 5000, "../../etc/passwd", "{{x}}", "%s",
        [], [[]], [None], [1, 1], ["a", 1], {}, {"a": None}, {"": 1}, [[[[1]]]], {"min": 1, "max": 2}, {"min": 2, "max": 1, "step": 0},
        "rail-only", "H100", "megatron-core", [8, "8", 8.0], 1024.0, "1_000", "12 ", "\t", "none", "bf16",
    ]
).map(copy.deepcopy)  # fmt: skip
keys = st.sampled_from(
    [
        "name",
        "gpu",
        "gpus",
        "size",
        "min",
        "max",
        "options",
        "sources",
        "plans",
        "training",
        "<<",
        "",
        "a.b",
        "model_type",
        "x",
    ]
)


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from places(child, (*path, key))


@st.composite
def damaged_values(draw, kind):
    data = copy.deepcopy(draw(st.sampled_from(corpus(kind))))
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(list(places(data))))
        if not path:
            continue
        parent = data
        for key in path[:-1]:
            parent = parent[key]
        action = draw(st.integers(0, 3))
        if action == 0:
            del parent[path[-1]]
        elif action == 1 and isinstance(parent, dict):
            parent[draw(keys)] = draw(unpleasant)
        elif action == 2 and type(parent[path[-1]]) in (int, float) and abs(parent[path[-1]]) < 1e300:
            parent[path[-1]] = parent[path[-1]] * draw(st.sampled_from([-1, 0.5, 1.0, 3, 1e6, 10**9, 1e300]))
        else:
            parent[path[-1]] = draw(unpleasant)
    if draw(st.booleans()):
        return json.dumps(data).encode()
    try:
        return dump_yaml(data).encode()
    except ValueError:  # an integer too long to print
        return b"name: [unprintable"


@st.composite
def damaged_text(draw, kind):
    data = draw(st.sampled_from(corpus(kind)))
    text = dump_yaml(data) if draw(st.booleans()) else json.dumps(data, indent=1)
    lines = text.split("\n")
    for _ in range(draw(st.integers(1, 4))):
        i, j = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
        action = draw(st.integers(0, 5))
        if action == 0:
            lines.insert(j, lines[i])
        elif action == 1:
            lines[i] = (
                draw(st.sampled_from(["  ", "\t", "- ", "? ", "&a ", "*a ", "!!python/name:os ", "---\n", "# "]))
                + lines[i]
            )
        elif action == 2:
            lines[i] = lines[i].replace(
                ":", draw(st.sampled_from(["", "::", ": &a [*a] #", ": |", ": >\n", ": {", ": ["])), 1
            )
        elif action == 3:
            lines[i], lines[j] = lines[j], lines[i]
        elif action == 4:
            lines[i] = lines[i] + draw(
                st.sampled_from(["}", "]", ",", '"', "'", " #", " : 1", "\\", "\u2028", "\x85", "\x00", "\ufeff"])
            )
        else:
            del lines[i : i + 2]
            lines = lines or [""]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


@st.composite
def damaged_bytes(draw, kind):
    raw = bytearray(draw(damaged_text(kind)))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(raw)))
        raw[at : at + draw(st.integers(0, 3))] = draw(st.binary(max_size=4))
    return bytes(raw)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


def attempt(load, path):
    """The loaded value, or None after a proper refusal."""
    try:
        return load(path)
    except InputError as e:
        assert e.problems and all(p.message for p in e.problems)
        str(e).encode()  # a message that cannot be printed is a crash on the user's screen
        return None


def use_cluster(spec):
    gpu_constants(gpu_of(spec), "bf16", spec.calibration)
    for count in gpu_counts(spec)[:3]:
        for size in hb_sizes(spec, count)[:3]:
            network_constants(spec, count, size, 1e11, 5e10)


LOADERS = {
    "clusters": (load_cluster, use_cluster),
    "models": (load_model, model_constants),
    "plans": (load_plan, Plan.to_dict),
    "calibrations": (load_calibration, lambda c: c.model_dump()),
}


@pytest.mark.parametrize("damage", [damaged_values, damaged_text, damaged_bytes], ids=lambda d: d.__name__)
@pytest.mark.parametrize("kind", LOADERS)
def test_no_file_crashes_a_reader(folder, kind, damage):
    load, use = LOADERS[kind]
    accepted = []

    @relaxed
    @given(damage(kind))
    def check(raw):
        path = folder / ("config.json" if raw[:1] == b"{" else "f.yaml")
        path.write_bytes(raw)
        value = attempt(load, path)
        if value is not None:
            accepted.append(1)
            attempt(use, value)

    check()


@relaxed
@given(st.text(max_size=200))
def test_no_text_crashes_the_parser(text):
    attempt(parse, text)


@relaxed
@given(st.text(max_size=60).filter(lambda name: name != "-"))
def test_no_name_crashes_a_loader(name):
    for load in (load_cluster, load_model, load_plan):
        attempt(load, name)


def test_damage_leaves_some_files_acceptable(folder):
    """The mutations must reach past the first check, or the tests above prove nothing."""
    seen = {"good": 0, "bad": 0}

    @settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
    @given(damaged_values("models"))
    def count(raw):
        path = folder / "g.yaml"
        path.write_bytes(raw)
        seen["good" if attempt(load_model, path) else "bad"] += 1

    count()
    assert seen["good"] >= 5 and seen["bad"] >= 20
