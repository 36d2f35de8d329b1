#!/usr/bin/env bash
# Ask and tell by hand: mrafno says which simulations to run, you run them anywhere, and it learns from what comes back.
# Usage: by_hand.sh FOLDER, a new one for the run. It needs mrafno and python on the PATH.
set -euo pipefail
mkdir "$1" && cd "$1"

# The candidate inputs, the meshes and their costs. For asking and telling, the simulator itself is not needed.
cat > problem.py <<'PYTHON'
import numpy as np
from mrafno.tasks import FunctionTask

x, k = np.linspace(0, 1, 17), np.random.default_rng(0).uniform(1, 6, (20, 1))
task = FunctionTask(lambda f, level: np.tanh(f), np.sin(k * x), resolutions=(9, 17), costs=(1.0, 4.0))
PYTHON

# A stand-in for the simulation: reads one .npy file, writes another.
simulate() { python -c 'import sys, numpy as np; np.save(sys.argv[2], np.tanh(np.load(sys.argv[1])))' "$1" "$2"; }
# A field of one of the queries in asked.json, such as: field 0 id
field() { python -c 'import json, sys; print(json.load(open("asked.json"))[int(sys.argv[1])][sys.argv[2]])' "$1" "$2"; }

mrafno create problem.py:task --out run --initial 2 --test 0 --members 3 --iterations 3

# First come the initial examples, two on each mesh; the input is (1, 9) or (1, 17) in float64.
mrafno ask run -n 4 > asked.json
for i in 0 1 2 3; do
    simulate "$(field $i input)" output.npy
    mrafno tell run "$(field $i id)" output.npy --cost "$(field $i cost)"
done

# From now on it learns and chooses. Several people may ask; what was asked and not told counts as running.
mrafno ask run -n 3 > asked.json
simulate "$(field 0 input)" output.npy
mrafno tell run "$(field 0 id)" output.npy --cost 3.5 --seconds 60
mrafno fail run "$(field 1 id)" --reason "the licence server was down"          # may be asked again
mrafno abandon run "$(field 2 id)" --reason "this input has no steady state"    # is never asked again

# Where the simulator can be called, mrafno goes on by itself with all that was told.
mrafno resume run --steps 2
mrafno show run
