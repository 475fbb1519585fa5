"""Shell scripts: which of their commands trains, and what it says."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autotune.errors import InputError
from autotune.reader import bash_words as w
from autotune.reader import (
    configurations,
    deepspeed_json,
    flag_rules,
    framework_yaml,
    hf_trainer,
    job_size,
    known_models,
    megatron_args,
    nemo,
    torchtitan,
)
from autotune.reader.bash_eval import Interpreter
from autotune.reader.companions import Companions
from autotune.reader.configurations import Setting
from autotune.reader.flags import Flags
from autotune.reader.launchers import Job, peel
from autotune.reader.recovered import Recovered, complete

_CONFIG_VARIABLES = ("EXP", "CONFIG_FILE", "CONFIG_PATH", "TRAIN_CONFIG")


class Command:
    """One launched program, its flags, and how much it looks like training."""

    def __init__(self, job: Job, files: Companions) -> None:
        self.job, self.files = job, files
        self.flags = Flags.parse(job.arguments)
        self.scores = {
            "megatron": megatron_args.score(self.flags), "trainer": hf_trainer.score(self.flags), "fsdp": hf_trainer.fsdp_score(self.flags),
            "bridge": 5 * nemo.is_override_command(job.arguments), "torchtitan": 9 * self._is_titan(), "config": 4 * bool(self.config()),
        }
        if "convert" in posixpath.basename(job.program):
            self.scores = dict.fromkeys(self.scores, 0)

    @property
    def kind(self) -> str:
        """The reader with the best score."""
        return max(self.scores, key=lambda k: self.scores[k])

    @property
    def score(self) -> int:
        """How sure that is."""
        return max(self.scores.values())

    def _is_titan(self) -> bool:
        return "torchtitan" in self.job.program or any(k.startswith(("parallelism.", "job.config_file")) for k in self.flags.table)

    def config(self) -> str | None:
        """The YAML file the program is given, if any."""
        named = self.flags.text("config_file", "config", "config_path", "configs") or ""
        candidates = [named, *self.flags.positional, *self.job.arguments[:2]]
        return next((c for c in candidates if w.is_known(c) and c.endswith((".yaml", ".yml"))), None)


def read(path: Path, text: str, settings: dict[str, str], arguments: list[str], which: int | None, per_node: int | None) -> Recovered:
    """Follow a script and read the command that trains; `which` picks one when there are several (1 = first)."""
    shell, state, stopped = _follow(path, text, settings, arguments)
    commands = [Command(peel(launch), shell.files) for launch in state.launches]
    best = max((c.score for c in commands), default=0)
    training = [c for c in commands if c.score and 2 * c.score >= best]
    variables = {k: v for k, v in shell.scope.values.items() if isinstance(v, str)}
    if not training or best < 2:
        found = _only_variables(shell, variables, settings, per_node)
        if found is None:
            raise InputError.of(_nothing(state.launches, stopped, list(state.notes)), str(path))
    else:
        if which is not None and not 1 <= which <= len(training):
            raise InputError.of(f"--launch {which}: the script launches {len(training)} training command(s)", str(path))
        found = interpret(training[(which or 1) - 1], settings, per_node)
        found.launches = len(training)
        if len(training) > 1 and which is None:
            found.note(f"the script launches {len(training)} training commands; this is the first (--launch N for another)")
    for line in state.notes:
        found.note(line)
    if stopped:
        found.note(f"as it stands the script stops before it launches anything ({stopped}); what follows was read all the same")
    return found


def _follow(path: Path, text: str, settings: dict[str, str], arguments: list[str]) -> tuple[Interpreter, Any, str]:
    shell = Interpreter(path, settings, arguments)
    state = shell.run(text)
    stopped = state.stopped
    if stopped and not state.launches:
        shell = Interpreter(path, settings, arguments, ignore_exit=True)
        state = shell.run(text)
        return shell, state, stopped
    return shell, state, ""


def _nothing(launches: list[Any], stopped: str, notes: list[str]) -> str:
    if not launches:
        why = f"; it stops early ({stopped})" if stopped else ""
        return f"no command was found that launches training{why}" + "".join(f"; {n}" for n in notes[:3])
    names = ", ".join(dict.fromkeys(w.readable(x.words[0])[:40] for x in launches[:6]))
    return f"no training command among those launched: {names}"


def interpret(command: Command, settings: dict[str, str], per_node: int | None, counts: dict[str, str] | None = None) -> Recovered:
    """The facts of one training command."""
    job, flags, kind = command.job, command.flags, command.kind
    reader = _READERS[kind]
    found = reader(command, settings, per_node)
    if found.kind in ("nanotron", "gpt-neox", "nemo") and kind == "config":
        return found
    if counts:
        from autotune.reader import kubernetes

        kubernetes.size(found, counts)
    if kind == "trainer" or found.kind == "accelerate":
        _accelerate_file(found, command)
    _ray_size(found, flags)
    _hostfile(job, command.files)
    if not found.launch.get("world_size") and not (found.launch.get("nodes") and found.launch.get("gpus_per_node")):
        job_size.size(found, job, settings, per_node)
    found.launch["program"] = w.readable(job.program)
    connections = job.variables.get("CUDA_DEVICE_MAX_CONNECTIONS")
    if connections and w.is_known(connections):
        found.launch["cuda_device_max_connections"] = connections
    for name in ("NCCL_CROSS_NIC",):
        if job.variables.get(name) and w.is_known(job.variables[name]):
            found.launch[name.lower()] = job.variables[name]
    if kind == "torchtitan":
        torchtitan.finish(found)
    complete(found)
    if found.target == "deepspeed":
        deepspeed_json.batch(found)
    if kind == "megatron":
        flag_rules.check(found, flags)
    return complete(found) if found.plan.get("micro_batch_size") and not found.plan.get("global_batch_size") else found


def _megatron(command: Command, settings: dict[str, str], per_node: int | None) -> Recovered:
    job, flags = command.job, command.flags
    name = posixpath.basename(job.program)
    swift = name in ("megatron", "swift") or flags.has("mcore_model")
    wrapped = swift or flags.has("actor_num_nodes", "hf_checkpoint") or any("_" in a.split("=")[0] for a in job.arguments if a.startswith("--"))
    found = Recovered("swift" if swift else "megatron")
    config = next((v for n in _CONFIG_VARIABLES if (v := job.variables.get(n, "")) and w.is_known(v) and v.endswith((".yaml", ".yml"))), None)
    if config and not flags.has("num_layers"):
        data = Setting(settings, command.files).read_yaml(config)
        if data is None:
            found.kind = "primus"
            found.need(config, "the configuration file that the script names; or give the model with --model")
        elif framework_yaml.is_primus(data):
            return framework_yaml.primus(Recovered("primus"), data, {**job.variables, **settings}, Setting(settings, command.files).read_yaml, flags)
    hub = flags.text("model", "model_name_or_path", "hf_checkpoint") if not flags.has("num_layers") else None
    shape = known_models.by_name(hub) if hub else None
    if shape:
        shape.pop("seq_length", None)
        found.model.update(shape)
        found.derived.update(dict.fromkeys(shape))
    if flags.has("num_query_groups") and wrapped:
        flags.table.setdefault("group_query_attention", [])
    before = dict(found.model)
    megatron_args.interpret(found, flags, strict=not wrapped)
    for key, value in before.items():
        found.model.setdefault(key, value)
    if swift and not flags.has("recompute_granularity"):
        found.plan["recompute"] = "selective"
    if swift or found.kind == "primus":
        found.derive("plan", "precision", "bf16")
    _deepspeed_file(found, flags, command.files)
    return found


def _deepspeed_file(found: Recovered, flags: Flags, files: Companions) -> None:
    path = flags.text("deepspeed_config")
    if not (path or flags.on("deepspeed")):
        return
    found.kind, found.target = "megatron-deepspeed", "deepspeed"
    raw = path or (flags.values("deepspeed_config") or [""])[0]
    text = files.read(raw, wanted=False) if raw else None
    if text is not None and w.is_known(text):
        deepspeed_json.apply(found, deepspeed_json.read_text(text, w.readable(raw)))
    elif text is not None:
        import re

        from autotune.errors import InputError

        known = re.sub("\ue000[^\ue001]*\ue001", "0", text)
        try:
            deepspeed_json.apply(found, deepspeed_json.read_text(known, w.readable(raw)))
        except InputError:
            found.note(f"the configuration {w.readable(raw)} depends on names that are not set")
    elif raw:
        found.note(f"the DeepSpeed configuration {w.readable(raw)} is not within reach; the flags alone were read")
    found.plan.setdefault("zero_stage", 0)


def _trainer(command: Command, settings: dict[str, str], per_node: int | None) -> Recovered:
    return hf_trainer.interpret(Recovered("trainer"), command.flags, lambda name: command.files.read(name, wanted=False))


def _fsdp(command: Command, settings: dict[str, str], per_node: int | None) -> Recovered:
    return hf_trainer.fsdp_program(Recovered("fsdp"), command.flags)


def _titan(command: Command, settings: dict[str, str], per_node: int | None) -> Recovered:
    found = Recovered("torchtitan")
    name = command.flags.text("job.config_file") or command.job.variables.get("CONFIG_FILE")
    toml = None
    if name and name.endswith(".toml"):
        text = command.files.read(name, wanted=False)
        if text is None:
            found.note(f"the TOML file {w.readable(name)} is not within reach; flags and defaults alone were read")
        else:
            toml = torchtitan.parse_toml(text, name)
    return torchtitan.interpret(found, command.flags, toml)


def _overrides(command: Command, settings: dict[str, str], per_node: int | None) -> Recovered:
    changes = nemo.overrides(command.job.arguments)
    prefix = "training." if any(k.startswith("training.") for _, k, _ in changes) else ""
    base = next((str(v) for _, k, v in changes if k == "training" and isinstance(v, str)), None) if prefix else command.flags.text("config_name")
    data = None
    if base:
        setting = Setting(settings, command.files)
        folders = ("launcher_scripts/conf/training/", "conf/training/", "training/", "conf/", "")
        data = next((d for folder in folders if (d := setting.read_yaml(f"{folder}{base}.yaml"))), None)
    if prefix or data is not None or any(k.startswith("trainer.") for _, k, _ in changes):
        found = Recovered("nemo")
        if data is None and base:
            found.need(f"training/{base}.yaml", "the configuration that the overrides start from; or give --model")
        return nemo.interpret(found, nemo.apply_overrides(data or {"model": {}, "trainer": {}}, changes, prefix), settings)
    return nemo.bridge(Recovered("bridge"), command.job.arguments)


def _config(command: Command, settings: dict[str, str], per_node: int | None) -> Recovered:
    name = command.config() or ""
    text = command.files.read(name, wanted=False)
    if text is None:
        found = Recovered("configuration")
        found.need(name, "the configuration file that the command names")
        return found
    merged = {**command.job.variables, **settings}
    size = Recovered("size")
    _hostfile(command.job, command.files)
    job_size.size(size, command.job, settings, per_node)
    known = {"NNODES": size.launch.get("nodes"), "GPUS_PER_NODE": size.launch.get("gpus_per_node"), "WORLD_SIZE": size.launch.get("world_size")}
    if not size.missing:
        merged |= {k: str(v) for k, v in known.items() if v}
    found = configurations.from_mapping(configurations.parse_mapping(text, name), name, Setting(merged, command.files, command.flags, per_node))
    if size.missing and not found.launch.get("world_size"):
        found.missing |= size.missing
    return found


def _accelerate_file(found: Recovered, command: Command) -> None:
    job = command.job
    if job.mixed_precision:
        found.plan.setdefault("precision", job.mixed_precision)
    if job.launcher != "accelerate" or not job.config:
        return
    text = command.files.read(job.config, wanted=False)
    if text is None:
        found.note(f"the accelerate configuration {w.readable(job.config)} is not within reach")
        return
    found.plan.pop("zero_stage", None)
    found.plan.pop("recompute", None)
    job_size.size(found, job, {}, None)
    hf_trainer.accelerate(found, configurations.parse_mapping(text, job.config))
    precision = command.flags.text("mixed_precision")
    if precision:
        found.plan["precision"] = precision


def _ray_size(found: Recovered, flags: Flags) -> None:
    nodes, per_node = flags.number(found, "actor_num_nodes", wanted=False), flags.number(found, "actor_num_gpus_per_node", wanted=False)
    if nodes and per_node:
        found.launch.update(nodes=nodes, gpus_per_node=per_node)


def _hostfile(job: Job, files: Companions) -> None:
    text = files.read(job.hostfile, wanted=False) if job.hostfile else None
    slots = [line.split("slots=")[1].split()[0] for line in (text or "").splitlines() if "slots=" in line and w.is_known(line)]
    if slots:
        job.nodes = job.nodes or str(len(slots))
        job.per_node = job.per_node or slots[0]


def _only_variables(shell: Interpreter, variables: dict[str, str], settings: dict[str, str], per_node: int | None) -> Recovered | None:
    """A file that launches nothing but names a configuration whose values it exports, or an accelerate command."""
    for name in _CONFIG_VARIABLES:
        path = variables.get(name, "")
        if path.endswith((".yaml", ".yml")):
            setting = Setting({**variables, **settings}, shell.files, None, per_node)
            data = setting.read_yaml(path)
            if data is not None:
                return configurations.from_mapping(data, path, setting)
    for launch in shell.state.launches:
        command = Command(peel(launch), shell.files)
        if command.job.launcher in ("accelerate", "torchrun", "deepspeed") and command.job.program:
            found = interpret(_as_trainer(command), settings, per_node)
            found.kind = command.job.launcher
            for key in ("micro_batch_size", "gradient_accumulation", "global_batch_size"):
                found.plan.pop(key, None)
            found.need("MODEL", f"the model and the batch stand in the program {w.readable(command.job.program)}; give --model and --micro")
            return found
    return None


def _as_trainer(command: Command) -> Command:
    command.scores = {**dict.fromkeys(command.scores, 0), "trainer": 1}
    return command


_READERS: dict[str, Callable[[Command, dict[str, str], int | None], Recovered]] = {
    "megatron": _megatron, "trainer": _trainer, "fsdp": _fsdp, "torchtitan": _titan, "bridge": _overrides, "config": _config,
}
