#!/usr/bin/env bash
# ./shard.sh I N grades part I of N of the folder `submissions` beside this file into `shard-I`; a part that was killed
# keeps what is graded, so start it again. ./shard.sh merge puts all parts into `grades`. Other options go to
# gemm-lessons grade as they are, such as --processes 2.
set -euo pipefail
cd "$(dirname "$0")"

exec 9> .installing
flock 9 # the first part installs, the others wait for it
if [ ! -x venv/bin/gemm-lessons ]; then
    "${PYTHON:-python3}" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer, please")'
    "${PYTHON:-python3}" -m venv venv
    venv/bin/pip install --disable-pip-version-check gemm_lessons-*.whl
fi
exec 9>&-

if [ "${1:-}" = merge ]; then
    exec venv/bin/gemm-lessons grade merge shard-* --out grades
fi
if [ $# -lt 2 ]; then
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
fi
part=$1 parts=$2
shift 2
options=(--lessons '@LESSONS@' --config grading.toml --shard "$part/$parts" --out "shard-$part")
[ -f roster.csv ] && options+=(--roster roster.csv)
exec venv/bin/gemm-lessons grade submissions "${options[@]}" "$@"
