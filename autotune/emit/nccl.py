"""Environment of a launch: what NCCL (or RCCL) must be told about the network, and what the framework asks for.

NCCL does not discover the network between hosts. On a rail-only network two GPUs of different rails have no path through
switches at all, and the only ways to say so are NCCL_CROSS_NIC and PXN. Variable names and defaults: NCCL 2.30 user guide and
source; the behaviour of CROSS_NIC and PXN on rails: NVIDIA/nccl issues 1494, 1933, 2193, 2385.
"""

from __future__ import annotations

from autotune.emit.job import Layout, Variable
from autotune.plan import Plan
from autotune.specs import ClusterSpec, GpuSpec

RAIL_FABRICS = ("rail-only", "multi-plane")


def gpu_of(cluster: ClusterSpec) -> GpuSpec:
    """The cluster's GPU, looked up in the catalogue where the file only names it."""
    if isinstance(cluster.gpu, GpuSpec):
        return cluster.gpu
    from autotune.catalogue import find_gpu

    return find_gpu(cluster.gpu)


def is_amd(cluster: ClusterSpec) -> bool:
    """Whether the GPUs use RCCL.

    >>> is_amd(ClusterSpec(name="c", gpus=8, gpu=GpuSpec(name="MI300X", vendor="AMD", memory_GiB=192, hbm_GBps=5300,
    ...     bf16_TFLOPS=1307, scale_up_GBps=448)))
    True
    """
    return gpu_of(cluster).vendor.upper() == "AMD"


def is_blackwell(cluster: ClusterSpec) -> bool:
    """Compute capability 10 or later, where CUDA_DEVICE_MAX_CONNECTIONS no longer orders kernels."""
    name = gpu_of(cluster).name.upper().replace("NVIDIA", "").strip(" -")
    return name.startswith(("B100", "B200", "B300", "GB200", "GB300"))


def environment(cluster: ClusterSpec, plan: Plan, where: Layout, max_connections: int | None) -> list[Variable]:
    """Variables of one launch, each with its reason. Empty values are filled in by the script at run time.

    `max_connections` is the framework's wish for CUDA_DEVICE_MAX_CONNECTIONS, None to leave it alone.
    """
    amd = is_amd(cluster)
    variables = [*_framework(plan, amd, max_connections)]
    if where.nodes > 1:
        variables += _bootstrap(cluster, plan)
    if where.gpus > where.domain:
        variables += _rails(plan, amd) if plan.fabric in RAIL_FABRICS else _aligned(plan, amd)
        variables += _nics(cluster)
    return variables


def _framework(plan: Plan, amd: bool, max_connections: int | None) -> list[Variable]:
    result = []
    if max_connections is not None:
        name = "GPU_MAX_HW_QUEUES" if amd else "CUDA_DEVICE_MAX_CONNECTIONS"
        why = (
            "One hardware queue, so that communication kernels start in program order and overlap with the GEMM behind them."
            if max_connections == 1
            else "More than one hardware queue: sharded parameters are gathered on a stream of their own."
        )
        if amd:
            result.append(Variable(name, "2", "Hardware queues per process; RCCL runs beside compute with two."))
            result.append(Variable("CUDA_DEVICE_MAX_CONNECTIONS", str(max_connections), "Read by the framework's own check."))
        else:
            result.append(Variable(name, str(max_connections), why))
    result.append(
        Variable("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", "Less fragmentation: the memory estimate assumes little.")
    )
    result.append(Variable("OMP_NUM_THREADS", "1", "The processes of a host share its CPU cores; torchrun's default."))
    return result


def _bootstrap(cluster: ClusterSpec, plan: Plan) -> list[Variable]:
    why = (
        "Bootstrap needs any-to-any reach, which rails do not give: this must be the front-end network."
        if plan.fabric in RAIL_FABRICS
        else "Bootstrap and the rendezvous store use this interface."
    )
    return [
        Variable("NCCL_SOCKET_IFNAME", cluster.launch.socket_interface or "", why),
        Variable("GLOO_SOCKET_IFNAME", cluster.launch.socket_interface or "", "The same for PyTorch's CPU groups."),
    ]


def _rails(plan: Plan, amd: bool) -> list[Variable]:
    result = [
        Variable(
            "NCCL_CROSS_NIC",
            "0",
            "Rings and trees stay on one NIC index: the only way to tell NCCL that rails are not joined outside the domain.",
        ),
        Variable(
            "NCCL_PXN_DISABLE",
            "0",
            "PXN is the only path between rails: data hops inside the domain to the GPU on the right rail."
            + (" RCCL's default is 1." if amd else ""),
        ),
    ]
    if not amd:
        result.append(Variable("NCCL_P2P_PXN_LEVEL", "2", "All-to-all always relays through the destination's rail; 0 would find no path."))
        result.append(
            Variable("NCCL_NET_MERGE_POLICY", "RAIL", "NCCL 2.30.5 and later: never fuse two ports of a NIC that sit on different rails.")
        )
    return result


def _aligned(plan: Plan, amd: bool) -> list[Variable]:
    if plan.fabric != "rail-optimized":
        return []
    result = [Variable("NCCL_CROSS_NIC", "0", "Rings stay on one rail and so within one leaf switch; crossing rails costs spine hops.")]
    if amd:
        result.append(Variable("NCCL_PXN_DISABLE", "0", "Relay to the right rail inside the host; RCCL's default is 1."))
    return result


def _nics(cluster: ClusterSpec) -> list[Variable]:
    if not cluster.launch.ib_hca:
        return []
    names = "=" + ",".join(cluster.launch.ib_hca)
    return [Variable("NCCL_IB_HCA", names, "The NICs in rail order, by exact name ('='), the same on every host.")]
