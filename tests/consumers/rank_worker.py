"""Asks the real megatron-core for process groups: one JSON request per line in, one JSON answer per line out.

Request: {"world", "tp", "cp", "pp", "ep", "etp", "order"}. Answer: {"groups": {kind: [[rank, ...], ...]}} from the two
RankGenerators that `initialize_model_parallel` builds and its default embedding ranks, or {"refused": message}.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


def groups(state: Any, r: dict[str, Any]) -> dict[str, Any]:
    """Every kind's groups, after Megatron's own check that dense and expert pipeline groups are the same."""
    world, per_dense, per_expert = r["world"], r["tp"] * r["cp"] * r["pp"], r["etp"] * r["ep"] * r["pp"]
    dense = state.RankGenerator(tp=r["tp"], ep=1, dp=world // per_dense, pp=r["pp"], cp=r["cp"], order=r["order"])
    expert = state.RankGenerator(tp=r["etp"], ep=r["ep"], dp=world // per_expert, pp=r["pp"], cp=1, order=r["order"])
    found = {"tensor": dense.get_ranks("tp"), "context": dense.get_ranks("cp"), "data": dense.get_ranks("dp-cp")}
    found["pipeline"] = dense.get_ranks("pp")
    found["embedding"] = [state.default_embedding_ranks(group) for group in found["pipeline"]]
    found |= {"expert-tensor": expert.get_ranks("tp"), "expert": expert.get_ranks("ep"), "expert-data": expert.get_ranks("dp")}
    if found["pipeline"] != expert.get_ranks("pp"):
        return {"refused": "pipeline groups of dense and expert layers differ"}
    return {"groups": found}


def main() -> None:
    """Say which version this is, then answer until the input ends."""
    import stand_ins

    stand_ins.quiet()
    stand_ins.without_triton()
    stand_ins.pretend_gpu()
    import megatron.core
    import megatron.core.parallel_state as state

    print(json.dumps({"megatron_core": megatron.core.__version__}), flush=True)
    for line in sys.stdin:
        try:
            answer = groups(state, json.loads(line))
        except Exception as e:
            answer = {"verdict": "broken", "message": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
