//! `router_settings`, `litellm_settings` and `general_settings`.

use serde_json::Value;

use super::super::act::{Act, Table};
use super::super::draft::Draft;
use super::super::key::Key;
use super::super::note::Found;
use super::{Section, UNKNOWN, shown, variable};

/// The table of all three sections, since LiteLLM moves settings from one to another.
const TABLE: Table<fn(&str, &Found, &mut Draft)> = Table {
    acts: &[
        ("routing_strategy", Act::Do(strategy)),
        ("master_key", Act::Do(master_key)),
        ("num_retries", Act::Count("attempts", 1)),
        ("timeout request_timeout", Act::Seconds("timeouts.first_byte")),
        // LiteLLM pauses a deployment once it has failed more often than allowed.
        ("allowed_fails", Act::Count("breaker.failures", 1)),
        ("cooldown_time", Act::Open),
        ("global_max_parallel_requests", Act::Count("limits.requests", 0)),
        ("max_request_size_mb", Act::Body(1 << 20)),
    ],
    notes: "\
stream_timeout: streams and other answers have the same timeouts; set timeouts.first_byte and timeouts.idle",
    hidden: "\
context_window_fallbacks content_policy_fallbacks: \
an error that the request causes starts no fallback; send such requests to the larger model
callbacks success_callback failure_callback service_callback: \
requests are reported as OpenTelemetry traces only; set traces.endpoint, or scrape /metrics of the admin port
cache cache_params: answers are not cached, engines cache prefixes; keep LiteLLM in front for it: docs/migration.md
database_url database_connection_pool_limit: \
users, teams and budgets are not kept; keep LiteLLM in front for it: docs/migration.md
alerting alert_types alerting_threshold alerting_args: no alerts are sent; let Prometheus watch /metrics
retry_policy allowed_fails_policy retry_after model_group_retry_policy: \
the kinds of failures to retry are fixed, and a retry goes to another replica at once; see docs/routing.md, Retries",
    guards: "\
custom_auth enable_jwt_auth litellm_jwtauth enable_oauth2_auth allowed_ips custom_auth_settings \
use_azure_key_vault key_management_system litellm_key_header_name: \
this check of clients is not converted; keep LiteLLM in front for it: docs/migration.md",
    needless: "\
set_verbose json_logs debug_level redis_host redis_port redis_password redis_url num_workers \
enable_pre_call_checks optional_pre_call_checks drop_params store_model_in_db disable_spend_logs \
turn_off_message_logging ssl_verify proxy_batch_write_at forward_client_headers_to_llm_api telemetry \
cache_responses disable_cooldowns health_check_interval background_health_checks \
use_client_credentials_pass_through_routes",
    elsewhere: "",
    unknown: UNKNOWN,
};

/// Converts a section.
pub(super) fn read(place: &str, section: &Section, draft: &mut Draft) {
    for (name, value) in section {
        if models(name, value, place, draft) {
            continue;
        }
        let value = shown(value);
        TABLE.apply((name, &value, place), draft, |convert, from, draft| {
            convert(&value, from, draft);
        });
    }
}

/// Aliases and fallbacks, which are lists and maps. Returns whether it is one of them, in a known form.
fn models(name: &str, value: &Value, place: &str, draft: &mut Draft) -> bool {
    let from = Found::new(name, "", place);
    let names = |value: &Value| -> Vec<String> {
        value
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect()
    };
    match (name, value) {
        ("model_group_alias", Value::Object(aliases)) => {
            for (alias, target) in aliases {
                // Also as `{model: NAME, hidden: true}`.
                let target = target.get("model").unwrap_or(target).as_str().unwrap_or_default();
                draft.models.stands_for(alias, target, &Found::new(name, alias, place));
            }
        }
        ("fallbacks", Value::Array(list)) => {
            for (model, others) in list.iter().filter_map(Value::as_object).flatten() {
                match model.as_str() {
                    "*" => draft.models.all_fall_back(names(others), &from),
                    model => draft.models.falls_back(model, names(others), &from),
                }
            }
        }
        ("default_fallbacks", Value::Array(_)) => draft.models.all_fall_back(names(value), &from),
        _ => return false,
    }
    true
}

fn master_key(text: &str, from: &Found, draft: &mut Draft) {
    let key = match variable(text) {
        Some(name) => Key::Variable(name.to_owned()),
        None => Key::Text(text.to_owned()),
    };
    draft.tenant("litellm", &key, &from.hide());
}

fn strategy(name: &str, from: &Found, draft: &mut Draft) {
    match name {
        "simple-shuffle" => draft.set("policy", "random", from),
        "least-busy" => draft.set("policy", "least_outstanding", from),
        "latency-based-routing" | "usage-based-routing" | "usage-based-routing-v2" => {
            draft.set("policy", "meridian", from);
            let why =
                "its closest counterpart, policy meridian, estimates the time to the first token";
            draft.note(from, why, "compare the policies in docs/routing.md");
        }
        _ => draft.note(from, "no policy is like it", "choose one from docs/routing.md"),
    }
}
