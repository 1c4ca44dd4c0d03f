#!/usr/bin/env bash
# Grades the folder `submissions` beside this file into `grades`; what is graded already is kept. Other options go to
# gemm-lessons grade as they are, such as --processes 2.
set -euo pipefail
cd "$(dirname "$0")"

if [ ! -x venv/bin/gemm-lessons ]; then
    "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer, please")'
    "${PYTHON:-python3}" -m venv venv
    venv/bin/pip install --disable-pip-version-check gemm_lessons-*.whl
fi
options=(--lessons '@LESSONS@' --config grading.toml --out grades)
[ -f roster.csv ] && options+=(--roster roster.csv)
exec venv/bin/gemm-lessons grade submissions "${options[@]}" "$@"
