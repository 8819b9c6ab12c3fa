/* Meridian's flow gate, for connectors in engines. Made by ./x docs; see lab/docs/flow.md.
 *
 * Every function may be called by any thread, with any numbers, at any time. Strings are UTF-8 and
 * NUL-terminated. A negative result is a code below: send without a permit then. */

#ifndef MERIDIAN_FLOW_H
#define MERIDIAN_FLOW_H

#include <stddef.h>
#include <stdint.h>

/**
 * The gate was closed, or never opened.
 */
#define MERIDIAN_UNKNOWN_GATE -1

/**
 * An argument is a null pointer, not UTF-8, not the JSON that is expected, or out of range.
 */
#define MERIDIAN_BAD_ARGUMENT -2

/**
 * The gate refuses the input.
 */
#define MERIDIAN_REFUSED -3

/**
 * The transfer, batch or request is not there: it has ended.
 */
#define MERIDIAN_UNKNOWN -4

/**
 * Too many transfers are under way.
 */
#define MERIDIAN_FULL -5

/**
 * The gate has failed, and transfers go on without it.
 */
#define MERIDIAN_FAILED -6

/**
 * The version of this ABI. It changes when a caller would have to.
 */
#define MERIDIAN_FLOW_ABI 1

/**
 * A gate. The pointer is a number that is looked up, and points to nothing.
 */
typedef struct MeridianGate MeridianGate;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The version of this ABI.
 */
uint32_t meridian_flow_abi(void);

/**
 * What a negative result means. The text is static.
 */
const char *meridian_flow_error(int64_t code);

/**
 * Opens a gate. `settings` is JSON: {"policy": "mfs", "node": "prefill-a", "ports": [{"name":
 * "eth0/out", "gbps": 25}], "chunk": 262144, "window": 524288, "hold_ms": 5, "coordinator":
 * "10.0.0.1:7400"}; only `ports` is required. NULL if they are not valid, with a message in `error`.
 *
 * # Safety
 * `settings` is a NUL-terminated string; `error` is null or has `error_size` bytes.
 */
struct MeridianGate *meridian_gate_open(const char *settings,
                                        char *error,
                                        uintptr_t error_size);

/**
 * Closes a gate. Later calls with it return MERIDIAN_UNKNOWN_GATE.
 */
void meridian_gate_close(struct MeridianGate *gate);

/**
 * A batch starts to compute. `batch` is JSON: {"batch": 7, "layers": 32, "layer_us": 900,
 * "collectives": [{"port": "eth0/out", "bytes": 1000}], "requests": [{"request": 12345,
 * "ttft_left_ms": 812.5, "slo_ms": 2000, "decode_ms": 12, "plan": [{"port": "eth0/out", "reuse": 0,
 * "handoff": 1048576}]}]}. Without `ttft_left_ms` a request is best effort. 0, or a negative code
 * with a message in `error`.
 *
 * # Safety
 * `batch` is a NUL-terminated string; `error` is null or has `error_size` bytes.
 */
int32_t meridian_gate_batch(struct MeridianGate *gate,
                            const char *batch,
                            char *error,
                            uintptr_t error_size);

/**
 * A batch reaches a layer, from 0. A new chunk of a prompt is a new generation.
 */
int32_t meridian_gate_layer(struct MeridianGate *gate,
                            uint64_t batch,
                            uint32_t generation,
                            uint16_t layer);

/**
 * A batch has computed all of its layers, or is abandoned.
 */
int32_t meridian_gate_departed(struct MeridianGate *gate, uint64_t batch);

/**
 * A request has ended, with all of its transfers.
 */
int32_t meridian_gate_ended(struct MeridianGate *gate, uint64_t request);

/**
 * A transfer is ready to be sent. `stage` is 1 (cached KV is fetched), 2 (a collective) or 3 (KV goes
 * to decode); `owner` its request, for a collective its batch; `ports` indices into the settings'
 * ports, the one that is gated first. Returns the transfer, or a negative code.
 *
 * # Safety
 * `ports` points to `ports_len` numbers.
 */
int64_t meridian_gate_submit(struct MeridianGate *gate,
                             uint8_t stage,
                             uint64_t owner,
                             uint16_t layer,
                             uint64_t bytes,
                             const uint32_t *ports,
                             uintptr_t ports_len);

/**
 * Blocks until the transfer may send its next chunk. Returns the bytes that it may send, at most
 * `bytes` and at most a chunk, or a negative code: send without a permit then. `traffic_class` gets
 * the class to send with, 0 first; it may be NULL.
 *
 * # Safety
 * `traffic_class` is null or points to a byte.
 */
int64_t meridian_gate_permit(struct MeridianGate *gate,
                             int64_t transfer,
                             uint32_t bytes,
                             uint8_t *traffic_class);

/**
 * Bytes of a transfer have been sent. It ends with its last byte.
 */
int32_t meridian_gate_completed(struct MeridianGate *gate, int64_t transfer, uint64_t bytes);

/**
 * The client gives a transfer up.
 */
int32_t meridian_gate_withdrawn(struct MeridianGate *gate, int64_t transfer);

/**
 * Writes the gate's counts as JSON. Returns the bytes that they need without the NUL, or a negative
 * code; what does not fit is cut.
 *
 * # Safety
 * `json` is null or has `size` bytes.
 */
int64_t meridian_gate_status(struct MeridianGate *gate, char *json, uintptr_t size);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* MERIDIAN_FLOW_H */
