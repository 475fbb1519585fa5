"""Values of the traffic claims (T1-T9): who sends how much to whom."""

from __future__ import annotations

from autotune.reproduce.claims import Values
from autotune.reproduce.settings import GH200_CHUNKS, GH200_HB_SIZE, GH200_RUN, MEGATRON_RUNS, TRAFFIC_OPTIONS, Run
from costmodels.rail_only_paper import PaperOptions, nic_byte_share
from costmodels.rail_only_traffic import (
    PaperEdges,
    PaperTraffic,
    data_bytes,
    data_nic_share,
    hop_bytes,
    pair_edges,
    silent_pair_fraction,
    tensor_bytes,
    traffic_per_gpu,
)

LARGEST = MEGATRON_RUNS[-1]
RECOMPUTED_COLLECTIVES = 12.0  # a recomputed forward pass repeats its four collectives


def run_traffic(run: Run, chunks: int = 0) -> PaperTraffic:
    """Bytes a GPU of the run sends in an iteration, counted as T1 does."""
    return traffic_per_gpu(run.model, run.strategy(chunks), run.batch, TRAFFIC_OPTIONS)


def traffic_percent(traffic: PaperTraffic) -> dict[str, float]:
    """Shares by kind.

    >>> traffic_percent(PaperTraffic(3.0, 1.0, 0.0))
    {'tensor': 75.0, 'data': 25.0, 'pipeline': 0.0}
    """
    total = sum(traffic)
    return {kind: 100 * value / total for kind, value in zip(traffic._fields, traffic, strict=True)}


def run_edges(run: Run, tensor_mesh: bool) -> PaperEdges:
    """The talking pairs of a run, with one layer per chunk."""
    return pair_edges(run.model, run.strategy(0), run.batch, TRAFFIC_OPTIONS, int(tensor_mesh))


def _silent_percent(run: Run, tensor_mesh: bool) -> float:
    return 100 * silent_pair_fraction(run_edges(run, tensor_mesh), run.gpus)


def _tensor_ring_percent(run: Run) -> float:
    # Every GPU sends to one ring neighbour, so N of the N (N-1) ordered pairs carry tensor bytes.
    edges = run_edges(run, tensor_mesh=False)
    return 100 * int((edges.kind == 0).sum()) / (run.gpus * (run.gpus - 1))


def _largest_tensor_bytes(collectives: float) -> float:
    options = PaperOptions(tensor_collectives=collectives)
    return tensor_bytes(LARGEST.model, LARGEST.strategy(0), LARGEST.batch, options)


def _mesh_pair_GB(collectives: float) -> float:
    """Both directions between two members of the tensor group of GPT-1T."""
    return 2 * _largest_tensor_bytes(collectives) / (LARGEST.tensor - 1) / 1e9


def _data_neighbour_GB() -> float:
    return data_bytes(LARGEST.model, LARGEST.strategy(1), PaperOptions()) / 1e9


def _share_in_nics() -> dict[str, float]:
    percent = 100 * nic_byte_share(32, 2)
    return {"inside": 100 - percent, "NIC": percent}


def traffic_values() -> dict[str, Values]:
    """What the model gives for T1 to T9.

    >>> {part: round(share, 1) for part, share in traffic_values()["T7"].parts.items()}
    {'data': 50.7, 'tensor': 38.4, 'pipeline': 10.9}
    """
    ring = {f"{run.name}, ring": _silent_percent(run, tensor_mesh=False) for run in MEGATRON_RUNS}
    mesh = {f"{run.name}, mesh": _silent_percent(run, tensor_mesh=True) for run in MEGATRON_RUNS}
    tensor_pairs = {run.name: _tensor_ring_percent(run) for run in MEGATRON_RUNS}
    large = {run.name for run in MEGATRON_RUNS if run.gpus > 2500}
    gh200 = traffic_percent(run_traffic(GH200_RUN, GH200_CHUNKS))
    strategy = GH200_RUN.strategy(GH200_CHUNKS)
    nic_share = data_nic_share(GH200_RUN.model, strategy, GH200_RUN.batch, GH200_HB_SIZE, TRAFFIC_OPTIONS)
    hop = hop_bytes(LARGEST.model, LARGEST.strategy(1), LARGEST.batch, PaperOptions()) / 1e9
    return {
        "T1": Values({run.name: traffic_percent(run_traffic(run))["tensor"] for run in MEGATRON_RUNS}),
        "T2": Values(ring | mesh),
        "T3": Values(
            {name: percent for name, percent in tensor_pairs.items() if name in large},
            {name: percent for name, percent in tensor_pairs.items() if name not in large},
        ),
        "T4": Values(
            {"tensor pair": _mesh_pair_GB(RECOMPUTED_COLLECTIVES)},
            {"mesh, 8 collectives": _mesh_pair_GB(8.0), "ring neighbour, 8 collectives": _largest_tensor_bytes(8.0) / 1e9},
        ),
        "T5": Values({"data neighbour": _data_neighbour_GB(), "pipeline neighbour": hop}),
        "T6": Values({"ratio": _mesh_pair_GB(RECOMPUTED_COLLECTIVES) / _data_neighbour_GB()}),
        "T7": Values({kind: gh200[kind] for kind in ("data", "tensor", "pipeline")}),
        "T8": Values({"data through NICs": 100 * nic_share}),
        "T9": Values(_share_in_nics()),
    }
