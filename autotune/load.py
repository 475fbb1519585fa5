"""Turns what the user names (a file, a folder, a preset) into checked specs. Every fault is an InputError.

A cluster is `cluster.yaml` or a preset; a model is `model.yaml`, a preset, or a Hugging Face `config.json` (or the
folder that holds one); a plan is a plan file or the result of `autotune search --json`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from autotune import catalogue
from autotune.errors import InputError, Problem, did_you_mean
from autotune.plan import Plan
from autotune.schema_errors import problems as problems_of
from autotune.schema_errors import show, validated
from autotune.specs import Calibration, ClusterSpec, ModelSpec
from autotune.textfile import read_text
from autotune.yaml_lines import Document, dump_yaml, parse

__all__ = [
    "cluster_line_finder",
    "dump_yaml",
    "load_calibration",
    "load_cluster",
    "load_document",
    "load_model",
    "load_plan",
    "load_plan_and_origin",
    "read_yaml",
]


def load_document(path: str | Path) -> Document:
    """A YAML or JSON file as plain values with line numbers."""
    return parse(read_text(path), str(path))


def read_yaml(path: str | Path) -> Any:
    """A YAML or JSON file as plain values."""
    return load_document(path).data


_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+(?<!\.yaml)(?<!\.yml)(?<!\.json)")  # org/name

def load_cluster(name_or_path: str | Path) -> ClusterSpec:
    """The cluster of a file or of the catalogue, with its GPU, fabric and stack names checked.

    `calibration` may be the path of a calibration file, relative to the cluster file; it is read here.

    >>> load_cluster("h100-rail-1024").network.fabric
    'rail-only'
    """
    from autotune.cluster_checks import cluster_problems

    document = _preset_or_file("clusters", name_or_path, "cluster")
    spec = validated(ClusterSpec, document)
    problems = [
        Problem(message, document.file, document.line_of(_keys(key)), key) for key, message in cluster_problems(spec)
    ]
    if isinstance(spec.calibration, str):
        path = os.path.join(os.path.dirname(document.file), os.path.expanduser(spec.calibration))
        try:
            spec = spec.model_copy(update={"calibration": load_calibration(path)})
        except InputError as e:
            line = document.line_of(("calibration",))
            problems.append(Problem(f"names the calibration file {show(path)}, which is not usable", document.file, line, "calibration"))
            problems += e.problems
    if problems:
        raise InputError(problems)
    return spec


def cluster_line_finder(name_or_path: str | Path) -> Callable[[str], int]:
    """Tells the line of a key in a cluster file that was read before; 0 where it is not known. Reads it when asked."""

    def find(key: str) -> int:
        if not key or str(name_or_path) == "-":  # standard input cannot be read twice
            return 0
        return _preset_or_file("clusters", name_or_path, "cluster").line_of(_keys(key))

    return find


def load_model(name_or_path: str | Path) -> ModelSpec:
    """The model of a file, a folder with a `config.json`, the catalogue, or `hf://org/name` on the Hugging Face hub.

    Files are model.yaml, a Hugging Face configuration, or a dump of Megatron's arguments, told apart by their keys.

    >>> load_model("gpt-175b").num_layers
    96
    """
    name = str(name_or_path)
    if name.startswith("hf://"):
        return _from_hub(name)
    if os.path.isdir(name):
        inside = os.path.join(name, "config.json")
        if os.path.isfile(inside):
            name_or_path = inside
        elif not catalogue.find("models", name):
            raise InputError.of("is a folder without a config.json", name)
    document = _preset_or_file("models", name_or_path, "model")
    reader = _foreign_reader(document.data)
    if reader:
        return _foreign(reader, document)
    spec = validated(ModelSpec, document)
    problems = _useless_keys(spec, document)
    if problems:
        raise InputError(problems)
    return spec


def load_calibration(path: str | Path) -> Calibration:
    """Efficiency constants of one cluster, as `autotune calibrate` writes them, bare or under the key `calibration`."""
    document = load_document(path)
    data = document.data
    if isinstance(data, dict) and isinstance(data.get("calibration"), dict):
        lines = {keys[1:]: line for keys, line in document.lines.items() if keys[:1] == ("calibration",)}
        document = Document(data["calibration"], document.file, lines)
    return validated(Calibration, document)


def load_plan(path: str | Path, model: ModelSpec | None = None) -> Plan:
    """The plan of a file. A `search --json` document or `result.json` gives its best plan.

    With `model`, a plan without `stage_layers` gets an even split.
    """
    return load_plan_and_origin(path, model)[0]


def load_plan_and_origin(path: str | Path, model: ModelSpec | None = None, consistent: bool = True) -> tuple[Plan, dict[str, str]]:
    """The plan of a file, as `load_plan`, and the hashes of the cluster and model it was made for, where the file carries them.

    `consistent` as in `Plan.from_dict`.
    """
    from autotune.plan_files import origin_of, plan_from

    document = load_document(path)
    return plan_from(document, model, consistent), origin_of(document)


def _preset_or_file(kind: str, name_or_path: str | Path, what: str) -> Document:
    name = str(name_or_path)
    if name != "-" and (not os.path.lexists(name) or os.path.isdir(name)):
        preset = catalogue.find(kind, name) if name and "/" not in name else None
        if preset:
            return catalogue.document(kind, preset)
        if "/" not in name and not name.endswith((".yaml", ".yml", ".json")):
            hint = did_you_mean(name, catalogue.names(kind))
            raise InputError.of(
                f"no such {what} file or preset {show(name)}{hint}; 'autotune list {kind}' shows the presets"
            )
        if kind == "models" and _HUB_NAME.fullmatch(name):
            raise InputError.of(
                f"no such {what} file or preset {show(name)}; for the Hugging Face hub write hf://{name}; 'autotune list models' shows the presets"
            )
    return load_document(name_or_path)


def _foreign_reader(data: Any) -> Callable[..., ModelSpec] | None:
    """Who reads a model file that is not a model.yaml; None when it is one."""
    if not isinstance(data, dict) or "training" in data or "search" in data:
        return None
    strange = data.keys() - ModelSpec.model_fields.keys()
    if len(strange) < 2 and not strange & {"model_type", "architectures"}:
        return None  # a model.yaml, perhaps with a mistyped key
    from autotune import hf_config

    if hf_config.looks_like_megatron(data):
        return hf_config.model_from_megatron
    return hf_config.model_from_hf if hf_config.looks_like_hf(data) else None


def _foreign(reader: Callable[..., ModelSpec], document: Document) -> ModelSpec:
    path = Path(document.file)
    name = path.resolve().parent.name if path.name == "config.json" else path.stem
    try:
        return reader(document.data, document.file, name or "model")
    except InputError as e:
        raise InputError([_with_line(p, document) for p in e.problems]) from None
    except ValidationError as e:
        raise InputError(problems_of(e, ModelSpec, Document({}, document.file))) from None


def _from_hub(name: str) -> ModelSpec:
    from autotune import hf_config

    data, path = hf_config.load_hub_config(name)
    return hf_config.model_from_hf(data, path, name.rstrip("/").split("/")[-1])


def _with_line(problem: Problem, document: Document) -> Problem:
    line = problem.line or (document.line_of(_keys(problem.key)) if problem.key else 0)
    return Problem(problem.message, problem.file or document.file, line, problem.key)


def _keys(key: str) -> tuple[str | int, ...]:
    parts: list[str | int] = []
    for part in key.split("."):
        name, *indexes = part.split("[")
        parts.append(name)
        parts += [int(i.rstrip("]")) for i in indexes if i.rstrip("]").isdigit()]
    return tuple(parts)


def _useless_keys(spec: ModelSpec, document: Document) -> list[Problem]:
    """Keys that say nothing without another one: most often the other one was forgotten."""
    latent = ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim")
    needs = [(key, "num_experts") for key in spec.model_fields_set if key.startswith("moe_") or key == "first_k_dense"]
    needs += [(key, "multi_latent_attention") for key in latent if key in spec.model_fields_set]
    return [
        Problem(f"has no effect without {other}", document.file, document.line_of((key,)), key)
        for key, other in sorted(needs, key=lambda pair: document.line_of((pair[0],)))
        if not getattr(spec, other) and getattr(spec, key) not in (None, False, 0)
    ]
