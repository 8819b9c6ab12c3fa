#!/bin/sh
# Shepherd Model Gateway (smg) as its README starts it: cache-aware routing with its defaults,
# retries, health checks and circuit breaker on. Logging is at warn, so that it writes no line a
# request.
exec "$BIN" launch --host 127.0.0.1 --port "$PORT" --worker-urls "http://$REPLICA" \
    --policy cache_aware --prometheus-port "$METRICS_PORT" --log-level warn
