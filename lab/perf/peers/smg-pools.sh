#!/bin/sh
# smg with one prefill and one decode replica, as its help shows. Over HTTP that is SGLang's way:
# both legs at once, with the prefill replica's bootstrap port.
exec "$BIN" launch --host 127.0.0.1 --port "$PORT" --pd-disaggregation \
    --prefill "http://$PREFILL" 8998 --decode "http://$REPLICA" \
    --policy cache_aware --prometheus-port "$METRICS_PORT" --log-level warn
