//! `router_settings`, `litellm_settings` and `general_settings`.

use serde_json::Value;

use super::super::draft::Draft;
use super::super::key::Key;
use super::super::note::Found;
use super::super::value;
use super::{KEEP, Section, number, shown, variable, whole};

/// Keys that Meridian needs no counterpart for.
const NEEDLESS: &[&str] = &[
    "set_verbose",
    "json_logs",
    "debug_level",
    "redis_host",
    "redis_port",
    "redis_password",
    "redis_url",
    "num_workers",
    "enable_pre_call_checks",
    "optional_pre_call_checks",
    "drop_params",
    "store_model_in_db",
    "disable_spend_logs",
    "turn_off_message_logging",
    "ssl_verify",
    "proxy_batch_write_at",
    "forward_client_headers_to_llm_api",
    "telemetry",
    "cache_responses",
    "disable_cooldowns",
    "health_check_interval",
    "background_health_checks",
    "use_client_credentials_pass_through_routes",
];

/// Checks of clients that the import does not convert.
const GUARDS: &[&str] = &[
    "custom_auth",
    "enable_jwt_auth",
    "litellm_jwtauth",
    "enable_oauth2_auth",
    "allowed_ips",
    "custom_auth_settings",
    "use_azure_key_vault",
    "key_management_system",
    "litellm_key_header_name",
];

/// Why settings of models are not converted.
const MODELS: &str = "the import does not write the section `models`";

/// `router_settings`
pub(super) fn router(section: &Section, draft: &mut Draft) {
    for (name, value) in section {
        let found = Found::new(name, &shown(value), "router_settings");
        match name.as_str() {
            "routing_strategy" => strategy(&shown(value), &found, draft),
            "model_group_alias" => {
                let found = Found::hidden(name, "router_settings");
                draft.note(&found, MODELS, "write the aliases as models.NAME.alias");
            }
            "stream_timeout" => {
                let why = "streams and other answers have the same timeouts";
                draft.note(&found, why, "set timeouts.first_byte and timeouts.idle");
            }
            _ => common(name, value, "router_settings", &found, draft),
        }
    }
}

/// `litellm_settings`
pub(super) fn litellm(section: &Section, draft: &mut Draft) {
    for (name, value) in section {
        let found = Found::new(name, &shown(value), "litellm_settings");
        match name.as_str() {
            "callbacks" | "success_callback" | "failure_callback" | "service_callback" => {
                let found = Found::hidden(name, "litellm_settings");
                let why = "requests are not reported to other services";
                draft.note(&found, why, "scrape /metrics of the admin port");
            }
            "cache" | "cache_params" => {
                let found = Found::hidden(name, "litellm_settings");
                draft.note(&found, "answers are not cached; engines cache prefixes", KEEP);
            }
            _ => common(name, value, "litellm_settings", &found, draft),
        }
    }
}

/// `general_settings`
pub(super) fn general(section: &Section, draft: &mut Draft) {
    const PLACE: &str = "general_settings";
    for (name, value) in section {
        let found = Found::new(name, &shown(value), PLACE);
        match name.as_str() {
            "master_key" => {
                let text = shown(value);
                let key = match variable(&text) {
                    Some(name) => Key::Variable(name.to_owned()),
                    None => Key::Text(text),
                };
                draft.tenant("litellm", &key, &Found::hidden(name, PLACE));
            }
            "global_max_parallel_requests" => {
                draft.count("limits.requests", whole(value), 1 << 32, &found);
            }
            "max_request_size_mb" => {
                let bytes = whole(value).filter(|n| *n > 0).and_then(|n| n.checked_mul(1 << 20));
                match bytes {
                    Some(bytes) => draft.set("limits.body", value::size(bytes), &found),
                    None => draft.note(&found, "it is not a size", "set limits.body"),
                }
            }
            "database_url" | "database_connection_pool_limit" => {
                let found = Found::hidden(name, PLACE);
                draft.note(&found, "users, teams and budgets are not kept", KEEP);
            }
            "alerting" | "alert_types" | "alerting_threshold" | "alerting_args" => {
                let found = Found::hidden(name, PLACE);
                draft.note(&found, "no alerts are sent", "let Prometheus watch /metrics");
            }
            guard if GUARDS.contains(&guard) => {
                let found = Found::hidden(name, PLACE);
                draft.unguarded(&found, "this check of clients is not converted", KEEP);
            }
            _ => common(name, value, PLACE, &found, draft),
        }
    }
}

/// Converts settings that several sections have.
fn common(name: &str, value: &Value, place: &str, found: &Found, draft: &mut Draft) {
    let seconds = || number(value).and_then(value::seconds);
    let most = u64::from(u32::MAX) - 1;
    match name {
        "num_retries" => {
            draft.count("attempts", whole(value).map(|n| n.saturating_add(1)), most, found);
        }
        "timeout" | "request_timeout" => draft.span("timeouts.first_byte", seconds(), found),
        // LiteLLM pauses a deployment once it has failed more often than allowed.
        "allowed_fails" => {
            draft.count("breaker.failures", whole(value).map(|n| n.saturating_add(1)), most, found);
        }
        "cooldown_time" => draft.breaker_open(seconds(), found),
        "fallbacks"
        | "context_window_fallbacks"
        | "content_policy_fallbacks"
        | "default_fallbacks" => {
            let found = Found::hidden(name, place);
            draft.note(&found, MODELS, "write the models to try as models.NAME.fallbacks");
        }
        "retry_policy" | "allowed_fails_policy" | "retry_after" | "model_group_retry_policy" => {
            let found = Found::hidden(name, place);
            let why = "the kinds of failures to retry are fixed, and a retry goes to another replica at once";
            draft.note(&found, why, "see docs/gateway.md, Retries");
        }
        name if NEEDLESS.contains(&name) => draft.needless(name),
        name => {
            let found = Found::hidden(name, place);
            draft.note(&found, "the import does not know it", KEEP);
        }
    }
}

fn strategy(name: &str, found: &Found, draft: &mut Draft) {
    match name {
        "simple-shuffle" => draft.set("policy", "random", found),
        "least-busy" => draft.set("policy", "least_outstanding", found),
        "latency-based-routing" | "usage-based-routing" | "usage-based-routing-v2" => {
            draft.set("policy", "meridian", found);
            let why =
                "its closest counterpart, policy meridian, estimates the time to the first token";
            draft.note(found, why, "compare the policies in docs/policies.md");
        }
        _ => draft.note(found, "no policy is like it", "choose one from docs/policies.md"),
    }
}
