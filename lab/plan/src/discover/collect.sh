#!/bin/sh
# Prints what this server knows about its GPUs and network cards, for `meridian plan discover`.
# It only reads. To add NCCL's topology dump, set NCCL_TOPO_DUMP_FILE to the path of the dump.
part() { printf '\n=== meridian discover: %s\n' "$1"; }
bounded() { if command -v timeout >/dev/null 2>&1; then timeout 30 "$@"; else "$@"; fi; }
line() { if [ -r "$1" ]; then head -n 1 "$1" 2>/dev/null || echo; else echo; fi; }
address() { if [ -e "$1" ]; then basename "$(readlink -f "$1")"; fi; }

part version
echo 1
part host
uname -n
part gpus
bounded nvidia-smi --query-gpu=index,name,memory.total,pci.bus_id --format=csv 2>&1
part topo
bounded nvidia-smi topo -m 2>&1
part nccl
if [ -n "$NCCL_TOPO_DUMP_FILE" ]; then cat "$NCCL_TOPO_DUMP_FILE" 2>&1; fi
part sysfs
for device in /sys/bus/pci/devices/*; do
    case "$(line "$device/vendor") $(line "$device/class")" in
    "0x10de 0x0302"* | "0x10de 0x0300"*)
        printf 'gpu\t%s\t%s\n' "$(basename "$device")" "$(line "$device/numa_node")" ;;
    esac
done
# Virtual functions share the port of their card.
for card in /sys/class/net/*; do
    [ -e "$card/device" ] && [ ! -e "$card/device/physfn" ] || continue
    printf 'net\t%s\t%s\t%s\t%s\t%s\n' "$(basename "$card")" "$(address "$card/device")" \
        "$(line "$card/device/numa_node")" "$(line "$card/operstate")" "$(line "$card/speed")"
done
for card in /sys/class/infiniband/*; do
    [ -e "$card/device" ] && [ ! -e "$card/device/physfn" ] || continue
    for port in "$card"/ports/*; do
        printf 'rdma\t%s\t%s\t%s\t%s\t%s\t%s\n' "$(basename "$card")" "$(address "$card/device")" \
            "$(line "$card/device/numa_node")" "$(line "$port/state")" "$(line "$port/rate")" \
            "$(basename "$port")"
    done
done
part end
