"""Asks the real DeepSpeed about configurations: one JSON request per line in, one JSON answer per line out.

Request: {"config": text of ds_config.json, "world": 64, "tp": 4, "pp": 2, "topology": source of model_parallel.py or null,
"launcher": arguments of the deepspeed command or null, "hostfile": text or null}
Stages: launcher (its parser, and that hosts x slots are the job), json, config (with the world size of the job), unread (keys that DeepSpeed never looks at), pipeline, experts, topology.
"""

from __future__ import annotations

import json
import os
import sys
import types
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class Refused(Exception):
    """The real code said no."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage, self.message = stage, message


class Watched(dict):
    """A dict that remembers which keys were asked for."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.asked.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.asked.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.asked.add(str(key))
        return super().__contains__(key)

    def keys(self) -> Any:
        return _Keys(self)

    def __copy__(self) -> Watched:
        return self


class _Keys:
    def __init__(self, owner: Watched) -> None:
        self.owner = owner

    def __contains__(self, key: object) -> bool:
        return key in self.owner

    def __iter__(self) -> Any:
        return dict.__iter__(self.owner)

    def __len__(self) -> int:
        return dict.__len__(self.owner)


def ask(request: dict[str, Any]) -> dict[str, Any]:
    """Run all stages; what the configuration means to DeepSpeed."""
    if request.get("launcher"):
        launch(request["launcher"], request["hostfile"], request["world"])
    document = read(request["config"])
    world, tp, pp = request["world"], request["tp"], request["pp"]
    config = parse(document, world, world // (tp * pp))
    unread = unread_keys(document, config)
    if unread:
        raise Refused("unread", "DeepSpeed never reads " + ", ".join(unread))
    if pp > 1:
        enter_pipeline_engine(config)
    experts = config.expert_parallel_config
    if experts.enabled:
        check_experts(config, world, pp)
    facts = {
        "train_batch_size": config.train_batch_size,
        "micro_batch": config.train_micro_batch_size_per_gpu,
        "accumulation": config.gradient_accumulation_steps,
        "zero_stage": int(config.zero_optimization_stage),
        "bf16": config.bfloat16_config.enabled,
        "fp16": config.float16_config.enabled,
        "autotp_size": config.tensor_parallel_config.autotp_size,
        "autoep_size": experts.autoep_size if experts.enabled else 1,
        "pipeline": config.pipeline,
    }
    if request.get("topology"):
        facts["groups"] = topology(request["topology"])
    return facts


def launch(argv: list[str], hostfile: str, world: int) -> None:
    """The deepspeed command's own parser and hostfile reader."""
    from deepspeed.launcher import runner

    try:
        parsed = runner.parse_args([*argv, "program.py"])
        hosts = runner._parse_hostfile(hostfile.splitlines(keepends=True))
    except SystemExit as e:
        raise Refused("launcher", f"exit {e.code}") from e
    except Exception as e:
        raise Refused("launcher", f"{type(e).__name__}: {e}") from e
    started = parsed.num_nodes * parsed.num_gpus
    if started != world or sum(hosts.values()) != world:
        raise Refused("launcher", f"{started} processes on {dict(hosts)}, expected {world}")


def read(text: str) -> dict[str, Any]:
    """As DeepSpeed reads the file, with its refusal of duplicate keys."""
    import hjson
    from deepspeed.runtime.config_utils import dict_raise_error_on_duplicate_keys

    try:
        document = hjson.loads(text, object_pairs_hook=dict_raise_error_on_duplicate_keys)
    except Exception as e:
        raise Refused("json", str(e)) from e
    plain: dict[str, Any] = json.loads(json.dumps(document))
    return plain


def parse(document: dict[str, Any], world: int, data: int) -> Any:
    """DeepSpeedConfig in a job of `world` ranks with `data` data parallel ranks."""
    import deepspeed.runtime.config as runtime

    real = runtime.dist
    runtime.dist = types.SimpleNamespace(get_rank=lambda *a: 0, get_world_size=lambda *a: world)
    watched = Watched(document)
    try:
        config = runtime.DeepSpeedConfig(watched, mpu=types.SimpleNamespace(get_data_parallel_world_size=lambda: data))
    except Exception as e:
        raise Refused("config", f"{type(e).__name__}: {e}") from e
    finally:
        runtime.dist = real
    config.asked = watched.asked
    return config


def unread_keys(document: dict[str, Any], config: Any) -> list[str]:
    """Keys that DeepSpeed ignores: at the top, in `pipeline`, in `activation_checkpointing`."""
    from deepspeed.runtime.activation_checkpointing.config import DeepSpeedActivationCheckpointingConfig
    from deepspeed.runtime.config import get_pipeline_config

    unread = sorted(set(document) - config.asked)
    unread += [f"pipeline.{k}" for k in document.get("pipeline", {}) if k not in get_pipeline_config({})]
    block = Watched(document.get("activation_checkpointing", {}))
    DeepSpeedActivationCheckpointingConfig({"activation_checkpointing": block})
    return unread + [f"activation_checkpointing.{k}" for k in sorted(set(block) - block.asked)]


def enter_pipeline_engine(config: Any) -> None:
    """PipelineEngine's constructor, left after its own check of the ZeRO stage."""
    from deepspeed.runtime.pipe import engine
    from deepspeed.runtime.pipe.module import PipelineModule

    class Passed(Exception):
        pass

    class Probe(engine.PipelineEngine):
        def __init__(self) -> None:
            self.__dict__["module"] = PipelineModule.__new__(PipelineModule)
            engine.PipelineEngine.__init__(self)

        def zero_optimization_stage(self) -> int:
            return int(config.zero_optimization_stage)

        def __setattr__(self, name: str, value: Any) -> None:
            raise Passed

    real = engine.DeepSpeedEngine.__init__
    engine.DeepSpeedEngine.__init__ = lambda self, *a, **k: None
    try:
        Probe()
    except Passed:
        return
    except Exception as e:
        raise Refused("pipeline", f"{type(e).__name__}: {e}") from e
    finally:
        engine.DeepSpeedEngine.__init__ = real


def check_experts(config: Any, world: int, pp: int) -> None:
    """AutoEP's own validation."""
    from deepspeed.module_inject.auto_ep_config import validate_autoep_config

    try:
        validate_autoep_config(
            config.expert_parallel_config, world, pp, max(config.tensor_parallel_config.autotp_size, 1), 1,
            zero_stage=int(config.zero_optimization_stage),
        )  # fmt: skip
    except Exception as e:
        raise Refused("experts", f"{type(e).__name__}: {e}") from e


def topology(source: str) -> dict[str, list[list[int]]]:
    """The groups of the emitted topology."""
    space: dict[str, Any] = {}
    exec(compile(source, "model_parallel.py", "exec"), space)
    grid = space["make_topology"]()
    return {axis: grid.get_axis_comm_lists(axis) for axis in ("pipe", "data", "model")}


def main() -> None:
    """Answer until the input ends."""
    import stand_ins

    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    stand_ins.quiet()
    import deepspeed
    import deepspeed.runtime.config
    import torch

    torch.set_num_threads(1)
    print(json.dumps({"ready": True, "deepspeed": deepspeed.__version__}), flush=True)
    for line in sys.stdin:
        try:
            answer: dict[str, Any] = {"verdict": "accepted", "facts": ask(json.loads(line))}
        except Refused as e:
            answer = {"verdict": "rejected", "stage": e.stage, "message": e.message}
        except Exception as e:
            answer = {"verdict": "broken", "stage": "worker", "message": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer, default=str), flush=True)


if __name__ == "__main__":
    main()
