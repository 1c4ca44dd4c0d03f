#!/usr/bin/env bash
# Gradescope runs this once, as root, when it builds the image: a Python of its own for the kit that lies beside this file.
set -euo pipefail
root=${AUTOGRADER:-/autograder}

# Python 3.11 or newer that can make environments. Ubuntu 24.04 has one; 22.04 gets 3.11 beside its 3.10.
usable() { "$1" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1; }
python=
find_python() {
    for it in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if usable "$it"; then python=$it; return 0; fi
    done
    return 1
}
if ! find_python; then
    export DEBIAN_FRONTEND=noninteractive
    apt-get update
    apt-get install -y --no-install-recommends python3-venv || true
    find_python || { apt-get install -y --no-install-recommends python3.11 python3.11-venv && find_python; }
fi

"$python" -m venv "$root/venv"
"$root/venv/bin/pip" install --no-cache-dir --disable-pip-version-check "$root"/source/gemm_lessons-*.whl
"$root/venv/bin/gemm-lessons" --version
chmod go= "$root/source"  # points and hidden shapes
