//! The routers' flags, each with its conversion or the reason for not converting it.

use super::super::act;
use super::super::draft::Draft;
use super::super::note::Found;
use super::super::value;
use super::convert;
use super::given::Given;

type Convert = fn(&Given, &[String], &Found, &mut Draft);
type Act = act::Act<Convert>;

const DISCOVER: Act = Act::Say(
    "pods are not watched",
    "make a headless Service and name it in `discovery`: [{dns: \"NAME.NAMESPACE.svc:PORT\"}]",
);
const SPLIT: Act = Act::Say(
    "the roles of replicas are not converted",
    "list each replica in `replicas` with its `role`: prefill or decode",
);
const ENCODE: Act = Act::Say(
    "encoders on separate replicas are not supported",
    "keep that router for them, or let each replica encode for itself",
);
const BACKOFF: Act =
    Act::Say("a retry goes to another replica at once", "nothing to do; `attempts` bounds retries");
const MTLS: Act = Act::Say(
    "replicas name their certificates and keys",
    "add `ca`, `certificate` and `key` to `credentials`, and name them in each replica: docs/gateway.md",
);
const KEYS: &str = "let clients send keys: `tenants`, docs/gateway.md";
const PEERS: Act =
    Act::Say("gateways share state by another protocol", "set `peers`: docs/regions.md");

/// The table. A flag that is not in it becomes a note without its value.
const TABLE: &[(&str, Act)] = &[
    ("--host", Act::Elsewhere),
    ("--port", Act::Elsewhere),
    ("--policy", Act::Elsewhere),
    ("--cache-threshold", Act::Elsewhere),
    ("--cache-match-threshold", Act::Elsewhere),
    ("--balance-abs-threshold", Act::Elsewhere),
    ("--spill-abs-threshold", Act::Elsewhere),
    ("--balance-rel-threshold", Act::Elsewhere),
    ("--spill-rel-threshold", Act::Elsewhere),
    ("--max-tree-size", Act::Elsewhere),
    ("--prefix-hash-load-factor", Act::Elsewhere),
    ("--prometheus-host", Act::Elsewhere),
    ("--worker-urls", Act::Do(convert::workers)),
    ("--prometheus-port", Act::Do(convert::admin)),
    (
        "--request-timeout-secs",
        Act::Do(|_, v, from, draft| draft.span("timeouts.first_byte", convert::secs(v), from)),
    ),
    (
        "--shutdown-grace-period-secs",
        Act::Do(|_, v, from, draft| draft.span("timeouts.drain", convert::secs(v), from)),
    ),
    (
        "--header-read-timeout-secs",
        Act::Do(|_, v, from, draft| draft.span("timeouts.client", convert::secs(v), from)),
    ),
    ("--max-payload-size", Act::Do(convert::payload)),
    ("--max-concurrent-requests", Act::Do(convert::concurrent)),
    ("--queue-size", Act::Do(convert::queue)),
    (
        "--queue-timeout-secs",
        Act::Do(|_, v, from, draft| draft.span("held.max_wait", convert::secs(v), from)),
    ),
    (
        "--rate-limit-tokens-per-second",
        Act::Say(
            "requests are limited for each client's key",
            "set tenants[].limits.requests_per_minute to 60 times the value",
        ),
    ),
    (
        "--retry-max-retries",
        Act::Do(|given, v, from, draft| {
            if !given.has("--disable-retries") {
                draft.count("attempts", convert::number(v), u64::from(u32::MAX), from);
            }
        }),
    ),
    ("--disable-retries", Act::Do(|_, _, from, draft| draft.set("attempts", 1, from))),
    ("--retry-initial-backoff-ms", BACKOFF),
    ("--retry-max-backoff-ms", BACKOFF),
    ("--retry-backoff-multiplier", BACKOFF),
    ("--retry-jitter-factor", BACKOFF),
    (
        "--cb-failure-threshold",
        Act::Do(|_, v, from, draft| {
            draft.count("breaker.failures", convert::number(v), u64::from(u32::MAX), from);
        }),
    ),
    (
        "--cb-timeout-duration-secs",
        Act::Do(|_, v, from, draft| draft.breaker_open(convert::secs(v), from)),
    ),
    ("--cb-success-threshold", Act::Say("one success closes a circuit breaker", "nothing to do")),
    (
        "--cb-window-duration-secs",
        Act::Say(
            "failures in a row open a circuit breaker, however long they take",
            "set breaker.failures",
        ),
    ),
    (
        "--disable-circuit-breaker",
        Act::Say(
            "circuit breakers cannot be switched off",
            "set breaker.failures to a large number",
        ),
    ),
    (
        "--health-failure-threshold",
        Act::Do(|_, v, from, draft| {
            draft.count("probe.down_after", convert::number(v), u64::from(u32::MAX), from);
        }),
    ),
    (
        "--health-check-timeout-secs",
        Act::Do(|_, v, from, draft| draft.span("timeouts.probe", convert::secs(v), from)),
    ),
    (
        "--health-check-interval-secs",
        Act::Say(
            "health checks also read the load, so they come every 100 ms to 1 s",
            "set probe.busy and probe.idle if that is too often",
        ),
    ),
    (
        "--health-success-threshold",
        Act::Say("one good check brings a replica back", "nothing to do"),
    ),
    (
        "--health-check-endpoint",
        Act::Say(
            "the page to ask follows from the engine",
            "set replicas[].engine if it is not recognized: docs/engines.md",
        ),
    ),
    (
        "--health-check-port",
        Act::Say(
            "/health and /ready are at the clients' port and at the admin port",
            "let checks ask there",
        ),
    ),
    ("--disable-health-check", Act::Say("health checks cannot be switched off", "nothing to do")),
    ("--remove-unhealthy-workers", Act::Needless),
    (
        "--tls-cert-path",
        Act::Do(|_, v, from, draft| convert::file("tls.certificate", v, from, draft)),
    ),
    ("--tls-key-path", Act::Do(|_, v, from, draft| convert::file("tls.key", v, from, draft))),
    ("--client-cert-path", MTLS),
    ("--client-key-path", MTLS),
    ("--ca-cert-paths", MTLS),
    ("--upstream-http2", Act::Needless),
    ("--cors-allowed-origins", Act::Do(convert::origins)),
    ("--routing-key-headers", Act::Do(convert::headers)),
    ("--trust-tenant-header", Act::Needless),
    (
        "--tenant-header-name",
        Act::Do(|_, v, from, draft| {
            if let Some(name) = v.last() {
                draft.set("keys.tenant_header", value::quoted(name), from);
            }
        }),
    ),
    (
        "--routing-key-override",
        Act::Say("a session sticks by policy consistent_hash", "set policy and keys.headers"),
    ),
    (
        "--sticky-sessions",
        Act::Say("a session sticks by policy consistent_hash", "set policy and keys.headers"),
    ),
    ("--api-key", Act::Do(convert::api_key)),
    ("--tenant-api-key", Act::Do(convert::tenant_keys)),
    (
        "--control-plane-api-keys",
        Act::Hide(
            "keys of operators are not converted",
            "set admin_access.tokens to hashes from `meridian tenant-key`",
        ),
    ),
    ("--jwt-issuer", Act::Guard("tokens of another issuer are not checked", KEYS)),
    ("--jwt-jwks-uri", Act::Guard("tokens of another issuer are not checked", KEYS)),
    ("--jwt-audience", Act::Elsewhere),
    ("--jwt-role-mapping", Act::Elsewhere),
    ("--service-discovery", DISCOVER),
    ("--discovery-provider", DISCOVER),
    ("--selector", DISCOVER),
    ("--service-discovery-port", Act::Elsewhere),
    ("--service-discovery-namespace", Act::Elsewhere),
    (
        "--discovery-file",
        Act::Say(
            "the manifest has another format",
            "list its workers in a file of `discovery`: docs/gateway.md, Replica discovery",
        ),
    ),
    ("--pd-disaggregation", SPLIT),
    ("--epd-disaggregation", ENCODE),
    ("--vllm-pd-disaggregation", SPLIT),
    ("--prefill", SPLIT),
    ("--decode", SPLIT),
    ("--encode", ENCODE),
    ("--mini-lb", SPLIT),
    ("--prefill-policy", Act::Elsewhere),
    ("--decode-policy", Act::Elsewhere),
    ("--encode-policy", Act::Elsewhere),
    (
        "--dp-aware",
        Act::Say("a replica is one address for all its ranks", "list each rank's address"),
    ),
    (
        "--intra-node-data-parallel-size",
        Act::Say("a replica is one address for all its ranks", "list each rank's address"),
    ),
    (
        "--model-alias",
        Act::Say(
            "the import does not write the section `models`",
            "write the aliases as models.NAME.alias",
        ),
    ),
    ("--enable-mesh", PEERS),
    ("--mesh-peer-urls", PEERS),
    ("--enable-trace", Act::Say("no traces are sent", "use `meridian explain` and /metrics")),
    ("--otlp-traces-endpoint", Act::Elsewhere),
    ("--tenant-rate-limit-config", Act::Say("its file has another format", "set tenants[].limits")),
    ("--tenant-rate-limit-enabled", Act::Elsewhere),
    (
        "--priority-scheduler-config",
        Act::Say("its file has another format", "set tenants[].priority"),
    ),
    ("--priority-scheduler-enabled", Act::Elsewhere),
    ("--log-json", Act::Say("it is not a setting of the file", "start with --log-format json")),
];

/// Flags that need no counterpart.
const NEEDLESS: &[&str] = &[
    "--backend",
    "--block-size",
    "--bucket-adjust-interval-secs",
    "--chat-template",
    "--disable-load-monitoring",
    "--enable-igw",
    "--eviction-interval-secs",
    "--idle-connection-timeout-secs",
    "--load-monitor-interval",
    "--log-dir",
    "--log-level",
    "--max-idle-secs",
    "--model-path",
    "--model",
    "--prometheus-duration-buckets",
    "--request-id-headers",
    "--tokenizer-path",
    "--worker-startup-check-interval",
    "--worker-startup-delay",
    "--worker-startup-timeout-secs",
    "--tokenizer-cache-enable-l0",
    "--tokenizer-cache-enable-l1",
    "--upstream-pool-idle-timeout-secs",
    "--history-backend",
];

/// How the flag of this name is treated.
pub(super) fn act(name: &str) -> Act {
    Act::of(name, TABLE, NEEDLESS)
}
