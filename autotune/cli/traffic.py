"""`autotune traffic`: bytes between GPUs in one iteration, by kind of process group; rails, tiers, heat map."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from autotune.traffic import Job

MAX_PAIR_ROWS = 500_000


@click.command("traffic")
@click.argument("cluster")
@click.argument("model")
@click.argument("plan")
@click.option("--out", type=click.Path(path_type=Path), help="Folder for traffic.json, groups.csv, pairs.csv and heat map.")
@click.option("--force", is_flag=True, help="Write into a folder that is not empty.")
@click.option("--hosts", help="Allocated nodes (Slurm host list): do they keep every relay the plan needs? Exit 4 when not.")
@click.option("--all-hosts", help="All nodes of the cluster, domain by domain; needed with --hosts.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    cluster: str, model: str, plan: str, out: Path | None, force: bool, hosts: str | None, all_hosts: str | None, as_json: bool
) -> None:
    """Bytes between every pair of GPUs in one iteration of PLAN, by kind; whether rails alone can carry them."""
    from autotune.cli.input_warnings import warn_of_origin
    from autotune.errors import about
    from autotune.load import load_cluster, load_model, load_plan_and_origin
    from autotune.output import note, print_json
    from autotune.plan_files import line_finder
    from autotune.traffic import idle_pairs_share, job_of, summary

    the_cluster, the_model = load_cluster(cluster), load_model(model)
    the_plan, origin = load_plan_and_origin(plan, the_model)
    warnings = warn_of_origin(origin, the_cluster, the_model, as_json)
    with about(plan, line_finder(plan)):
        job = job_of(the_cluster, the_model, the_plan)
    if job.hb_size != the_plan.hb_domain_size:
        note(f"the plan says HB domains of {the_plan.hb_domain_size}; {the_cluster.name} has {job.hb_size}, which is used")
    document: dict[str, Any] = {"plan_id": the_plan.id, "fabric": the_cluster.network.fabric, **summary(job)}
    document["compatible"] = all(k["class"] != "illegal" for k in document["kinds"].values())
    document["idle_pairs_share"] = idle_pairs_share(job)
    document["warnings"] = warnings
    if bool(hosts) != bool(all_hosts):
        raise click.UsageError("--hosts and --all-hosts belong together")
    if hosts and all_hosts:
        from autotune.tenancy import plan_relays

        document["allocation"] = plan_relays(job, hosts, all_hosts, the_cluster.gpus_per_node or min(8, job.hb_size))
    if out:
        _write(out, force, job, document)
    if as_json:
        print_json(document)
    else:
        _print(document, out)
    if hosts and not document["allocation"]["kept"]:
        note("the allocation loses relays: holes in its HB domains leave a destination rail without a local GPU")
        raise SystemExit(4)


def _write(out: Path, force: bool, job: Job, document: dict[str, Any]) -> None:
    import json

    from autotune.outdir import OutputFolder
    from autotune.output import jsonable, note
    from autotune.plotting import heat_map
    from autotune.traffic import matrix

    with OutputFolder(out, force) as folder:
        folder.write("traffic.json", json.dumps(jsonable(document), indent=1) + "\n")
        folder.write("groups.csv", _groups_csv(document))
        if not _pairs_csv(folder.file("pairs.csv"), job):
            note(f"pairs.csv left out: more than {MAX_PAIR_ROWS} pairs; the heat map and groups.csv say what they hold")
        cells = matrix(job)
        per_cell = -(-document["gpus"] // len(cells))
        unit = "GPU" if per_cell == 1 else f"block of {per_cell} GPUs"
        title = f"Bytes per iteration, {document['gpus']} GPUs"
        heat_map(folder.file("traffic"), title, cells, f"to {unit}", f"from {unit}", "bytes", log=True)


def _groups_csv(document: dict[str, Any]) -> str:
    lines = ["kind,size,count,class,bytes,axes"]
    for g in document["groups"]:
        axes = " x ".join(f"{a['name']}:{a['size']}@{a['stride']}" for a in g["axes"])
        lines.append(f"{g['kind']},{g['size']},{g['count']},{g['class']},{g['bytes']:.0f},{axes}")
    return "\n".join(lines) + "\n"


def _pairs_csv(path: Path, job: Job) -> bool:
    from autotune.traffic import loaded_pairs, pair_list

    if loaded_pairs(job) > MAX_PAIR_ROWS:
        return False
    with path.open("w", encoding="utf-8") as file:
        file.write("kind,source,target,bytes\n")
        file.writelines(f"{kind},{source},{target},{nbytes:.0f}\n" for kind, source, target, nbytes in pair_list(job))
    return True


def _print(document: dict[str, Any], out: Path | None) -> None:
    from autotune.output import console, table

    show = console()
    rows = [
        [kind, _bytes(k["bytes"]), f"{k['share']:.1%}", k["class"], _bytes(k["direct"]), _bytes(k["relayed"]), _bytes(k["crossing"])]
        for kind, k in document["kinds"].items()
    ]
    head = ["kind", "bytes", "share", "class", "direct", "relayed", "crossing"]
    show.print(table(f"Bytes per iteration, {document['gpus']} GPUs, domains of {document['hb_domain_size']}", head, rows, {1, 2, 4, 5, 6}))
    tiers, rails = document["tiers"], document["rails"].values()
    show.print(f"HB domains {_bytes(tiers['hb'])}, rails {_bytes(tiers['rail'])}, between rails {_bytes(tiers['cross'])}")
    show.print(f"per rail {_bytes(min(rails))} to {_bytes(max(rails))}; {document['idle_pairs_share']:.2%} of GPU pairs idle")
    verdict = "rails alone carry this plan" if document["compatible"] else "this plan needs links between rails"
    show.print(verdict + (f"; written to {out}" if out else ""))


def _bytes(value: float) -> str:
    for unit, size in (("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f} B"
