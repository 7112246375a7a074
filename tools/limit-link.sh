#!/bin/sh
# Limits what a node sends: limit-link.sh INTERFACE 100mbit, limit-link.sh INTERFACE full.
# For `link.command` of a cluster: [sudo, -n, /usr/local/sbin/limit-link.sh, eth0]. Needs root and tc
# (Debian's iproute2). Every node limits what it sends, so an exchange is limited both ways.
set -eu
if [ $# -ne 2 ]; then
    echo "usage: $0 INTERFACE RATE|full" >&2
    exit 2
fi
interface=$1 rate=$2
case $rate in
full)
    # There may be no limit.
    tc qdisc del dev "$interface" root 2>/dev/null || [ -d "/sys/class/net/$interface" ]
    ;;
*[!0-9a-z]* | *[!t])
    echo "$0: found $rate; expected a rate such as 100mbit, or full" >&2
    exit 2
    ;;
*)
    # A bucket of 1 MB lets a gigabit pass at the kernel's timer; 50 ms of queue as a switch has.
    tc qdisc replace dev "$interface" root tbf rate "$rate" burst 1mb latency 50ms
    ;;
esac
