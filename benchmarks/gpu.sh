#!/usr/bin/env bash
# One GPU measured within 10 minutes: training in each number format, compiled and not, with and
# without fused attention, with less memory, in fp8; decoding. Tokens a second, share of the matmul
# ceiling (MFU) and peak memory, as a table and as JSON.
#
#   bash benchmarks/gpu.sh [FOLDER] [--size base|big|small] [--minutes 10] [--only formats …]
#   bash benchmarks/gpu.sh /tmp/out --tiny --device cpu     # does it run at all? seconds, no GPU
#
# FOLDER gets gpu.md and gpu.json, also what there is of them if it is stopped; without one, $OUT,
# or else .bench/gpu. Nothing is loaded from the network. It needs a Python with gnomon and a torch
# built for the GPU: $PYTHON, or .venv of this checkout, or python3. From a checkout, once:
#
#   python3 -m venv .venv && .venv/bin/pip install -e . -c constraints.txt    # torch for CUDA
#   .venv/bin/pip install torchao                                             # for fp8, if wanted
#
# On a machine that has torch already, `PYTHONPATH=src python3 …` and gnomon's other dependencies
# (`pip install tokenizers safetensors pydantic`) are enough: nothing is built.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-}
if [ -z "$python" ]; then
  python=$([ -x .venv/bin/python ] && echo .venv/bin/python || echo python3)
fi
export PYTHONPATH="$PWD/src:$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
exec "$python" -m benchmarks.gpu "$@"
