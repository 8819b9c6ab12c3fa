#!/bin/sh
# Envoy with a worker a core. Hot restart, which joins an older Envoy of the same machine by shared
# memory, is off.
exec "$BIN" -c "$CONFIG" --concurrency "$THREADS" --log-level warn --disable-hot-restart
