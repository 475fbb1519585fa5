#!/usr/bin/env bash
# Make .venv-consumers: the real programs that launch files are checked against, at pinned versions (CPU, about 1.6 GB).
#
#   scripts/setup_consumers.sh [FOLDER]        PYTHON=python3.11 names another interpreter
#
# Two pip runs on purpose: megatron-core asks for Python 3.12 although its 3.11 wheels work, so it goes in without
# dependencies; giving --ignore-requires-python to the first run would pick source releases that need 3.12.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=${1:-.venv-consumers}
python=${PYTHON:-$(command -v python3.11 || command -v python3)}
versions='torch=2.13.0 deepspeed=0.19.8 megatron_core=0.19.2 torchtitan=0.3.0 megatron_bridge=0.3.1'

if [ -f "$folder/versions.txt" ] && [ "$(cat "$folder/versions.txt")" = "$versions" ]; then
    echo "$folder is up to date: $versions"
    exit 0
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
    echo "warning: $python is not Python 3.11, for which these versions were tried; torch may come as a large CUDA build" >&2
fi
"$python" -m venv "$folder"
pip=("$folder/bin/python" -m pip --disable-pip-version-check --quiet install)
"${pip[@]}" torch==2.13.0 numpy packaging pyyaml einops
DS_BUILD_OPS=0 "${pip[@]}" deepspeed==0.19.8 torchtitan==0.3.0
"${pip[@]}" --no-deps --ignore-requires-python megatron-core==0.19.2
# Read as text only: the wheel's dependencies are CUDA builds.
"${pip[@]}" --no-deps megatron-bridge==0.3.1
echo "$versions" > "$folder/versions.txt"
echo "$folder is ready: $versions"
