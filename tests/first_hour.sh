#!/usr/bin/env bash
# The documented first hour (docs/first_hour.md) as a stranger would have it: a wheel, built here and
# installed into a fresh environment with both frameworks, and every block of the page in an empty
# folder. Prints how long each part took; PYTHON=... chooses the interpreter.
set -euo pipefail
cd "$(dirname "$0")/.."
ROOT=$PWD
PYTHON=${PYTHON:-python3}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

told() { printf '%-46s%5d s\n' "$1" $((SECONDS - SINCE)); SINCE=$SECONDS; }
SINCE=0

"$PYTHON" -m venv "$WORK/env"
PIP="$WORK/env/bin/python -m pip --quiet --disable-pip-version-check"
$PIP wheel --no-deps --wheel-dir "$WORK" .
WHEEL=$(echo "$WORK"/*.whl)
told "a wheel is built: $(basename "$WHEEL" | cut -c1-24)..."

# The versions that the tests pin: a plain torch may bring several gigabytes of CUDA.
$PIP install -c constraints/full.txt "$WHEEL[notebook,torch,mindspore]"
told "installed with notebook, torch, mindspore"

mkdir "$WORK/empty"
cd "$WORK/empty"
export GLOG_v=4 PATH="$WORK/env/bin:$PATH"
unset PYTHONPATH
tnb --version
for page in docs/first_hour.md docs/zh/first_hour.md; do
    mkdir -p "$WORK/empty/$page" && cd "$WORK/empty/$page"
    python "$ROOT/tests/docs/pages.py" "$ROOT/$page"
    told "$page"
done
if [ "$(python -c 'import troubleshooter_nb as t; print(t.__file__)' | grep -c "^$WORK/env/")" != 1 ]; then
    echo "the package was not that of the wheel"; exit 1
fi
printf '%-46s%5d s of 600\n' "the first hour, installation included" "$SECONDS"
[ "$SECONDS" -le 600 ]
