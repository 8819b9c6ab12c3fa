/* A client in C: the header compiles, and a transfer goes through the shared library. */
#include <stdio.h>
#include <string.h>

#include "../include/meridian_flow.h"

int main(void) {
    char error[200] = "";
    MeridianGate *gate;
    uint32_t port = 0;
    uint8_t class = 255;
    int64_t transfer, bytes;

    if (meridian_flow_abi() != MERIDIAN_FLOW_ABI) return 1;
    gate = meridian_gate_open("{\"ports\": [{\"name\": \"out\", \"gbps\": 10}]}", error, sizeof error);
    if (!gate) return fprintf(stderr, "%s\n", error), 2;
    if (meridian_gate_batch(gate, "{\"batch\": 1, \"requests\": [{\"request\": 1}]}", error, sizeof error))
        return fprintf(stderr, "%s\n", error), 3;
    transfer = meridian_gate_submit(gate, 3, 1, 0, 1000, &port, 1);
    if (transfer < 0) return fprintf(stderr, "%s\n", meridian_flow_error(transfer)), 4;
    bytes = meridian_gate_permit(gate, transfer, 1000, &class);
    if (bytes != 1000 || class > 7) return 5;
    if (meridian_gate_completed(gate, transfer, 1000)) return 6;
    if (meridian_gate_completed(gate, transfer, 1000) != MERIDIAN_UNKNOWN) return 7;
    meridian_gate_close(gate);
    return meridian_gate_departed(gate, 1) == MERIDIAN_UNKNOWN_GATE ? 0 : 8;
}
