#!/usr/bin/env bash
# Run a command with its own Docker engine, on a host without an engine and without a registry. The
# script makes the bases (bases.sh) and images with the host's network. Then it starts the engine
# again in a network namespace, runs the command there, and ends the engine.
#
#   sudo docker/engine.sh FOLDER make stack
#
# No index is reached in there: nodes need wheels from a folder (docs/compose.md).
# FOLDER keeps the engine's data for the next call. Needs root, dockerd, containerd, runc, iptables,
# Docker Compose 2 with buildx, iproute2, and what bases.sh needs. NIGHTBENCH_BUILD=no: images are
# there from an earlier call. The stack is stopped with its engine; its volumes stay.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
for program in dockerd containerd runc iptables ip nsenter; do
    command -v "$program" >/dev/null || { echo "engine.sh: $program is not installed" >&2; exit 1; }
done
namespace=nbengine$$
engine=
export DOCKER_HOST=unix://$folder/docker.sock DOCKER_BUILDKIT=1
export NIGHTBENCH_BASE=nightbench-debian POSTGRES_IMAGE=nightbench-postgres
export REDIS_IMAGE=nightbench-redis NIGHTBENCH_BUILD_NETWORK=host

stop() {
    [ -n "$engine" ] || return 0
    kill "$engine" 2>/dev/null || true
    wait "$engine" || true
    engine=
}
trap 'stop; ip netns delete "$namespace" 2>/dev/null || true' EXIT

start() {
    "$@" --data-root "$folder/data" --exec-root "$folder/run" --host "$DOCKER_HOST" \
        --pidfile "$folder/pid" > "$folder/log" 2>&1 &
    engine=$!
    for _ in $(seq 60); do
        ! docker info >/dev/null 2>&1 || return 0
        kill -0 "$engine" 2>/dev/null || break
        sleep 1
    done
    echo "engine.sh: the engine did not start; $folder/log ends with" >&2
    tail -n 5 "$folder/log" >&2
    exit 1
}

if [ "${NIGHTBENCH_BUILD:-yes}" = yes ]; then
    start dockerd --bridge=none --iptables=false
    "$here/bases.sh" "$folder/bases"
    python3 "$here/make_secrets.py"
    NIGHTBENCH_LOCKS=${NIGHTBENCH_LOCKS:-control analysis s3 celery} docker compose \
        -f "$here/compose.yaml" -f "$here/compose.celery.yaml" build
    stop
fi
ip netns add "$namespace"
ip -n "$namespace" link set lo up
start nsenter "--net=/run/netns/$namespace" dockerd --bip=172.31.0.1/24
status=0
nsenter "--net=/run/netns/$namespace" "$@" || status=$?
exit "$status"
