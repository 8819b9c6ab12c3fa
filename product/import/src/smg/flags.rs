//! The routers' flags, each with its conversion or the reason for not converting it.

use super::super::act::{Act, Table};
use super::super::draft::Draft;
use super::super::note::Found;
use super::convert;
use super::given::Given;

type Convert = fn(&Given, &[String], &Found, &mut Draft);

pub(super) const TABLE: Table<Convert> = Table {
    acts: &[
        ("--worker-urls", Act::Do(convert::workers)),
        ("--prometheus-port", Act::Do(convert::admin)),
        ("--request-timeout-secs", Act::Seconds("timeouts.first_byte")),
        ("--shutdown-grace-period-secs", Act::Seconds("timeouts.drain")),
        ("--header-read-timeout-secs", Act::Seconds("timeouts.client")),
        ("--health-check-timeout-secs", Act::Seconds("timeouts.probe")),
        ("--queue-timeout-secs", Act::Seconds("held.max_wait")),
        ("--max-payload-size", Act::Body(1)),
        ("--max-concurrent-requests", Act::Do(convert::concurrent)),
        ("--queue-size", Act::Do(convert::queue)),
        ("--retry-max-retries --disable-retries", Act::Do(convert::attempts)),
        ("--cb-failure-threshold", Act::Count("breaker.failures", 0)),
        ("--cb-timeout-duration-secs", Act::Open),
        ("--health-failure-threshold", Act::Count("probe.down_after", 0)),
        ("--tls-cert-path", Act::File("tls.certificate")),
        ("--tls-key-path", Act::File("tls.key")),
        ("--cors-allowed-origins", Act::Do(convert::origins)),
        ("--routing-key-headers", Act::Do(convert::headers)),
        ("--tenant-header-name", Act::Do(convert::tenant_header)),
        ("--api-key", Act::Do(convert::api_key)),
        ("--tenant-api-key", Act::Do(convert::tenant_keys)),
        ("--model-alias", Act::Do(convert::aliases)),
    ],
    notes: "\
--rate-limit-tokens-per-second: \
requests are limited for each client's key; set tenants[].limits.requests_per_minute to 60 times the value
--retry-initial-backoff-ms --retry-max-backoff-ms --retry-backoff-multiplier --retry-jitter-factor: \
a retry goes to another replica at once; nothing to do; `attempts` bounds retries
--cb-success-threshold: one success closes a circuit breaker; nothing to do
--cb-window-duration-secs: failures in a row open a circuit breaker, however long they take; set breaker.failures
--disable-circuit-breaker: circuit breakers cannot be switched off; set breaker.failures to a large number
--health-check-interval-secs: health checks also read the load, so they come every 100 ms to 1 s; \
set probe.busy and probe.idle if that is too often
--health-success-threshold: one good check brings a replica back; nothing to do
--health-check-endpoint: \
the page to ask follows from the engine; set replicas[].engine if it is not recognized: docs/engines.md
--health-check-port: /health and /ready are at the clients' port and at the admin port; let checks ask there
--disable-health-check: health checks cannot be switched off; nothing to do
--client-cert-path --client-key-path --ca-cert-paths: replicas name their certificates and keys; \
add `ca`, `certificate` and `key` to `credentials`, and name them in each replica: docs/engines.md
--routing-key-override --sticky-sessions: a session sticks by policy consistent_hash; set policy and keys.headers
--service-discovery --discovery-provider --selector: pods are not watched; \
make a headless Service and name it in `discovery`: [{dns: \"NAME.NAMESPACE.svc:PORT\"}]
--discovery-file: \
the manifest has another format; list its workers in a file of `discovery`: docs/engines.md, Replica discovery
--pd-disaggregation --vllm-pd-disaggregation --prefill --decode --mini-lb: \
the roles of replicas are not converted; list each replica in `replicas` with its `role`: prefill or decode
--epd-disaggregation --encode: encoders on separate replicas are not supported; \
keep that router for them, or let each replica encode for itself
--dp-aware --intra-node-data-parallel-size: ranks behind one address are one replica, whose engine chooses the rank; list ranks with addresses of their own
--enable-mesh --mesh-peer-urls: gateways share state by another protocol; set `peers`: docs/regions.md
--enable-trace: the import does not write the section `traces`; set traces.endpoint: docs/observability.md
--tenant-rate-limit-config: its file has another format; set tenants[].limits
--priority-scheduler-config: its file has another format; set tenants[].priority
--log-json: it is not a setting of the file; start with --log-format json",
    hidden: "\
--control-plane-api-keys: \
keys of operators are not converted; set admin_access.tokens to hashes from `meridian tenant-key`",
    guards: "\
--jwt-issuer --jwt-jwks-uri: \
the import does not write the section `oidc`; name the issuer there, or let clients send keys: docs/tenants.md",
    needless: "\
--backend --block-size --bucket-adjust-interval-secs --chat-template --disable-load-monitoring \
--enable-igw --eviction-interval-secs --idle-connection-timeout-secs --load-monitor-interval --log-dir \
--log-level --max-idle-secs --model-path --model --prometheus-duration-buckets --remove-unhealthy-workers \
--request-id-headers --tokenizer-path --trust-tenant-header --upstream-http2 \
--worker-startup-check-interval --worker-startup-delay --worker-startup-timeout-secs \
--tokenizer-cache-enable-l0 --tokenizer-cache-enable-l1 --upstream-pool-idle-timeout-secs --history-backend",
    elsewhere: "\
--host --port --policy --cache-threshold --cache-match-threshold --balance-abs-threshold \
--spill-abs-threshold --balance-rel-threshold --spill-rel-threshold --max-tree-size \
--prefix-hash-load-factor --prometheus-host --jwt-audience --jwt-role-mapping --service-discovery-port \
--service-discovery-namespace --prefill-policy --decode-policy --encode-policy --otlp-traces-endpoint \
--tenant-rate-limit-enabled --priority-scheduler-enabled",
    unknown: ("the import does not know it", "look for a counterpart in docs/configuration.md"),
};
