# shellcheck shell=bash
# Shared by the lab's scripts: where things are, how to speak, how to remember a finished step.
set -euo pipefail

LAB=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
CACHE=${SLUICE_LAB_CACHE:-$LAB/cache}
mkdir -p "$CACHE"
CACHE=$(cd "$CACHE" && pwd)
export SLUICE_LAB_CACHE=$CACHE

say() { printf 'lab: %s\n' "$*" >&2; }

die() {
    say "error: $*"
    exit 1
}

# Runs a command as root: directly, or through sudo.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        die "this step needs root and there is no sudo: $*"
    fi
}

# step NAME FUNCTION ARG...: runs the function unless it already succeeded with the same text,
# arguments and cache folder.
step() {
    local name=$1 stamp=$CACHE/stamps/$1 key
    shift
    key="$CACHE $* $(declare -f "$1")"
    if [ -f "$stamp" ] && [ "$(<"$stamp")" = "$key" ]; then
        return
    fi
    say "preparing $name"
    rm -f "$stamp"
    "$@"
    mkdir -p "$CACHE/stamps"
    printf '%s' "$key" >"$stamp"
}
