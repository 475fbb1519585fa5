"""Kubernetes: a JobSet (jobset.x-k8s.io/v1alpha2), one pod per host, with the launch script in a ConfigMap.

One replicated job per high-bandwidth domain. Where a domain spans several hosts, JobSet's exclusive placement keeps a job on
the nodes of one NVLink clique (the label that NVIDIA's GPU feature discovery sets).
"""

from __future__ import annotations

import re
from typing import Any

from autotune.emit.base import refuse
from autotune.emit.job import Job
from autotune.emit.launchers import torchrun
from autotune.emit.shell import job_name
from autotune.errors import InputError, Problem
from autotune.yaml_lines import dump_yaml

RFC1123 = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*")
# The pod's place: domain (job index, from JobSet) and host in it (completion index, from the Indexed Job).
START = 'export NODE_RANK=$((JOBSET_JOB_INDEX * {per_domain} + JOB_COMPLETION_INDEX)); exec bash /launch/{script}.sh "$@"'


def files(job: Job) -> dict[str, str]:
    """`launch.sh` and the manifest `launch.yaml` that carries it."""
    image = job.site.container_image
    if not image:
        raise InputError.of("Kubernetes needs an image: set launch.container_image in the cluster file", key="launch.container_image")
    namespace = job.site.namespace or "default"
    problems = []
    if not IMAGE.fullmatch(image):
        problems.append(Problem(f"{image!r} is not an image reference", key="launch.container_image"))
    if not RFC1123.fullmatch(namespace):
        problems.append(Problem(f"{namespace!r} is not a namespace", key="launch.namespace"))
    refuse(problems)
    name = job_name(job.name, 40)
    script = torchrun.files(job)
    everything = {**script, **job.attachments}
    documents = [_config_map(name, namespace, everything), dump_yaml(_job_set(job, name, namespace, image))]
    header = "".join(f"# {line}\n" for line in ("kubectl apply -f this file; needs the JobSet controller.", *_notes(job)))
    return {**script, f"{job.script}.yaml": header + "---\n".join(documents)}


def _notes(job: Job) -> list[str]:
    if job.layout.nodes_per_domain > 1:
        return [f"Each replicated job fills the {job.layout.nodes_per_domain} hosts of one NVLink domain."]
    return ["Pods are numbered by Kubernetes, not by cabling: on a rail-only network any order of whole hosts keeps the rails aligned."]


def _config_map(name: str, namespace: str, contents: dict[str, str]) -> str:
    lines = dump_yaml({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}}) + "data:\n"
    for file, text in contents.items():
        lines += f"  {file}: |\n" + "".join(f"    {line}\n" if line else "\n" for line in text.rstrip("\n").split("\n"))
    return lines


def _job_set(job: Job, name: str, namespace: str, image: str) -> dict[str, Any]:
    where = job.layout
    per_domain = min(where.nodes_per_domain, where.nodes)
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if per_domain > 1:
        metadata["annotations"] = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "nvidia.com/gpu.clique"}
    template = {
        "spec": {
            "parallelism": per_domain,
            "completions": per_domain,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "template": {"spec": _pod(job, name, image, per_domain)},
        }
    }
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {
            "network": {"enableDNSHostnames": True, "subdomain": name},
            "failurePolicy": {"maxRestarts": 0},
            "replicatedJobs": [{"name": "node", "replicas": where.nodes // per_domain, "template": template}],
        },
    }


def _pod(job: Job, name: str, image: str, per_domain: int) -> dict[str, Any]:
    index = {"fieldRef": {"fieldPath": "metadata.annotations['jobset.sigs.k8s.io/job-index']"}}
    gpu = "amd.com/gpu" if job.amd else "nvidia.com/gpu"
    container = {
        "name": "trainer",
        "image": image,
        "command": ["bash", "-c", START.format(per_domain=per_domain, script=job.script), job.script],
        "env": [
            {"name": "JOBSET_JOB_INDEX", "valueFrom": index},
            {"name": "MASTER_ADDR", "value": f"{name}-node-0-0.{name}"},
            {"name": "MASTER_PORT", "value": "29500"},
        ],
        "ports": [{"containerPort": 29500}],
        "resources": {"limits": {gpu: str(job.layout.gpus_per_node)}},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}},
        "volumeMounts": [{"name": "launch", "mountPath": "/launch"}, {"name": "shared-memory", "mountPath": "/dev/shm"}],
    }
    return {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [
            {"name": "launch", "configMap": {"name": name}},
            {"name": "shared-memory", "emptyDir": {"medium": "Memory"}},
        ],
    }
