#!/bin/sh
# Builds, checks and measures on an NVIDIA GPU in one command: bench/gpu_run.sh OUT [--only A,B]; see gpu_run.py.
exec "${PYTHON:-python3}" -B "$(dirname "$0")/gpu_run.py" "$@"
