#!/usr/bin/env bash
# two_workers.sh: docs/images/two_workers.svg, from a run of two workers on this machine. Needs python3-pyte, and
# ./dev build muster mnist.
set -euo pipefail
here=$PWD
export PATH=$here/build/release/bin:$PATH
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
cd "$work"
muster data digits --out digits
/usr/bin/python3 "$here/docs/drawings/terminal.py" "$here/docs/images/two_workers.svg" -- \
  muster run --workers=2 -- mnist --data_dir=digits --model_dir=model --epochs=1
