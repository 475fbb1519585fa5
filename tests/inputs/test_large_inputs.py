"""Files made to be slow: refused, or read, within seconds and with a message of sensible length."""

import json
import time

import pytest

from autotune.errors import InputError
from autotune.load import load_cluster, load_model, load_plan

MIB = 1 << 10
LARGE = {
    "many list items": "gpus:\n" + "- 1\n" * (2 * MIB - 10),
    "many list items in JSON": '{"gpus": [' + ",".join(["8"] * (3 * MIB)) + "]}",
    "many unknown keys": "".join(f"key{i}: 1\n" for i in range(100_000)),
    "many unknown keys in JSON": json.dumps({f"tensor_parallel{i}": 1 for i in range(200_000)}),
    "one long key": "k" * (7 * MIB) + ": 1\n",
    "one long value": "name: " + "v" * (7 * MIB) + "\n",
    "one long number": "gpus: " + "9" * (7 * MIB) + "\n",
    "a long quoted string never closed": "name: '" + "x" * (7 * MIB),
    "many anchors": "".join(f"a{i}: &a{i} 1\n" for i in range(100_000)),
    "wide aliases": "a: &a [" + "x," * 1000 + "]\nb: [" + "*a," * 100_000 + "]\n",
    "many brackets": "[" * (4 * MIB),
    "many colons": ":" * (4 * MIB),
    "many documents": "---\n" * MIB,
    "many remarks": "# x\n" * MIB,
}


@pytest.mark.parametrize("name", LARGE)
def test_large_files_are_refused_quickly(tmp_path, name):
    path = tmp_path / "f.yaml"
    path.write_text(LARGE[name])
    for load in (load_cluster, load_model, load_plan):
        start = time.process_time()
        with pytest.raises(InputError) as caught:
            load(path)
        assert time.process_time() - start < 10
        assert len(str(caught.value)) < 100_000
