//! The flow machine in a process that sends: each chunk of a transfer waits for its permit.
