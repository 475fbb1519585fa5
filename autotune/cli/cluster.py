"""`autotune cluster import`: a cluster file from machine dumps, scheduler files and instance names."""

from __future__ import annotations

from pathlib import Path

import click


@click.group("cluster")
def command() -> None:
    """Import cluster files from machine dumps and cloud instance names."""


@command.command("import")
@click.option("--smi-topo", metavar="FILE", help="Output of 'nvidia-smi topo -m' on one host.")
@click.option("--smi-query", metavar="FILE", help="Output of 'nvidia-smi -L', '-q', or '--query-gpu=name,memory.total --format=csv'.")
@click.option("--nccl-topo", metavar="FILE", help="NCCL topology or graph XML of one host.")
@click.option("--slurm-topology", metavar="FILE", help="Slurm topology.conf or topology.yaml.")
@click.option("--scontrol", metavar="FILE", help="Output of 'scontrol show node'.")
@click.option("--instance", metavar="TYPE", help="Cloud instance type, e.g. p5.48xlarge ('autotune list instances').")
@click.option("--count", type=click.IntRange(min=1), help="Number of instances.")
@click.option("--nodes", type=click.IntRange(min=1), help="Number of hosts.")
@click.option("--hostlist", metavar="LIST", help="Host names, e.g. 'node[001-128]'.")
@click.option("--gpu", metavar="NAME", help="GPU type, where the files do not tell ('autotune list gpus').")
@click.option("--fabric", metavar="NAME", help="Network fabric, which no file tells ('autotune list fabrics').")
@click.option("--nic-gbps", type=click.FloatRange(min=0, min_open=True), help="NIC rate per GPU, one direction.")
@click.option("--name", help="Name of the cluster.")
@click.option("--out", "-o", metavar="FILE", help="Where to write the cluster file; without it the text goes to stdout.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def import_command(
    smi_topo: str | None,
    smi_query: str | None,
    nccl_topo: str | None,
    slurm_topology: str | None,
    scontrol: str | None,
    instance: str | None,
    count: int | None,
    nodes: int | None,
    hostlist: str | None,
    gpu: str | None,
    fabric: str | None,
    nic_gbps: float | None,
    name: str | None,
    out: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Write a cluster file from what your machines already say.

    Every line tells where its value comes from; what had to be assumed is marked (!). Options win over files.
    """
    from autotune.cli.input_warnings import warn_of_cluster
    from autotune.importers.run import Request, import_cluster, save
    from autotune.output import note, print_json, warn

    request = Request(
        smi_topo=smi_topo, smi_query=smi_query, nccl_topo=nccl_topo, slurm_topology=slurm_topology, scontrol=scontrol,
        instance=instance, count=count, nodes=nodes, hostlist=hostlist, gpu=gpu, fabric=fabric, nic_Gbps=nic_gbps, name=name,
    )
    result = import_cluster(request)
    if out:
        save(result.text, Path(out), force)
    warnings = warn_of_cluster(result.cluster, as_json)
    if as_json:
        print_json({**result.to_dict(out), "warnings": warnings})
    elif not out:
        click.echo(result.text, nl=False)
    if not as_json:
        for text in result.draft.notes:
            note(f"note: {text}")
        for text in result.draft.unknown:
            warn(f"not known: {text}")
        for line in result.draft.lines:
            if line.assumed and "GUESSED" in line.why:
                warn(f"{line.key}: {line.why}")
        if out:
            note(f"wrote {out}: {sum(line.assumed for line in result.draft.lines)} of {len(result.draft.lines)} lines assumed, marked (!)")
