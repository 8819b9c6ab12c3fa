//! What a client can do whose path is not served: which other path to use, or which key to set.
//!
//! The table has the calls of OpenAI's and Anthropic's SDKs and the routes of engines that clients
//! try. A path that it does not know may be an engine's own, which an operator can list.

use super::endpoint::Endpoint;

const LITERAL: &str = "paths are compared literally: write it in lower case, with single slashes";
const TWICE: &str = "it has /v1 twice: Anthropic's clients add it to their base URL themselves, so leave it out there";
const BEGIN: &str = "it is served under /v1: let the client's base URL end there, as http://HOST:8080/v1 for OpenAI's clients and http://HOST:8080 for Anthropic's";
const OBJECTS: &str = "neither the gateway nor an engine keeps files or other objects: send the content in each request, as text or as a data: URL";
const BATCHES: &str = "there are no batches: send their requests one by one, which the gateway queues, with `x-meridian-priority: low` behind others";
const CONVERSATIONS: &str = "neither the gateway nor an engine keeps conversations: send the messages in each request, or continue a stored response with `previous_response_id` on /v1/responses";
const CHATS: &str = "engines do not store chat completions: keep the answer, or use /v1/responses, which engines may store; list a path of your engines under `paths` in the gateway's configuration";
const RESPONSES: &str = "of a stored response, GET and DELETE /v1/responses/ID, POST .../cancel and GET .../input_items are served";
const HOSTED: &str = "it runs at its provider, and no engine has it: agents such as Claude Code and Codex run on your machines and call /v1/messages or /v1/responses";
const SOCKETS: &str = "there are no WebSockets and no WebRTC: use /v1/audio/transcriptions and /v1/audio/speech, or a stream of /v1/responses";
const TRAINING: &str =
    "nothing trains or judges models here: add a model or an adapter as a replica";
const ENGINE: &str = "it administers one engine: send it to the address of that replica, which /admin/status of the gateway shows";
const OPERATOR: &str = "it is on the gateway's admin port, 8081 by default";
const OLDER: &str = "newer calls took its place: use /v1/messages or /v1/chat/completions";
const ACCOUNTS: &str =
    "the operator manages tenants, keys and limits in the gateway's configuration";
const OLLAMA: &str =
    "Ollama's API is not served: use /v1/chat/completions, /v1/embeddings and /v1/models";
const DEPLOYMENTS: &str = "Azure's paths and older ones with a model in them are not served: use the path from /v1 on, and name the model in the body";
const UNKNOWN: &str = "if it is a path of your engines, list it under `paths` in the gateway's configuration, exactly as clients send it";

/// Paths and what is below them, with the remedy; the first match counts.
const TABLE: [(&str, &str); 129] = [
    ("/v1/messages/batches", BATCHES),
    ("/v1/batches", BATCHES),
    ("/v1/files", OBJECTS),
    ("/v1/uploads", OBJECTS),
    ("/v1/vector_stores", OBJECTS),
    ("/v1/containers", OBJECTS),
    ("/v1/skills", OBJECTS),
    ("/v1/videos", OBJECTS),
    ("/v1/audio/voices", OBJECTS),
    ("/v1/audio/voice_consents", OBJECTS),
    ("/v1/memory_stores", OBJECTS),
    ("/v1/agents", HOSTED),
    ("/v1/environments", HOSTED),
    ("/v1/sessions", HOSTED),
    ("/v1/deployments", HOSTED),
    ("/v1/deployment_runs", HOSTED),
    ("/v1/vaults", HOSTED),
    ("/v1/dreams", HOSTED),
    ("/v1/tunnels", HOSTED),
    ("/v1/content_provenance_checks", HOSTED),
    ("/v1/conversations", CONVERSATIONS),
    ("/v1/assistants", CONVERSATIONS),
    ("/v1/threads", CONVERSATIONS),
    ("/v1/chatkit", CONVERSATIONS),
    ("/v1/chat/completions", CHATS),
    ("/v1/responses", RESPONSES),
    ("/v1/realtime", SOCKETS),
    ("/v1/fine_tuning", TRAINING),
    ("/v1/evals", TRAINING),
    ("/v1/graders", TRAINING),
    ("/v1/load_lora_adapter", ENGINE),
    ("/v1/unload_lora_adapter", ENGINE),
    ("/load_lora_adapter", ENGINE),
    ("/unload_lora_adapter", ENGINE),
    ("/lora-adapters", ENGINE),
    ("/sleep", ENGINE),
    ("/wake_up", ENGINE),
    ("/is_sleeping", ENGINE),
    ("/pause", ENGINE),
    ("/resume", ENGINE),
    ("/is_paused", ENGINE),
    ("/pause_generation", ENGINE),
    ("/continue_generation", ENGINE),
    ("/reset_prefix_cache", ENGINE),
    ("/reset_mm_cache", ENGINE),
    ("/reset_encoder_cache", ENGINE),
    ("/flush_cache", ENGINE),
    ("/collective_rpc", ENGINE),
    ("/scale_elastic_ep", ENGINE),
    ("/is_scaling_elastic_ep", ENGINE),
    ("/start_profile", ENGINE),
    ("/stop_profile", ENGINE),
    ("/init_weights_update_group", ENGINE),
    ("/update_weights", ENGINE),
    ("/update_weights_from_disk", ENGINE),
    ("/update_weights_from_tensor", ENGINE),
    ("/update_weights_from_distributed", ENGINE),
    ("/update_weight_version", ENGINE),
    ("/get_weights_by_name", ENGINE),
    ("/release_memory_occupation", ENGINE),
    ("/resume_memory_occupation", ENGINE),
    ("/abort_request", ENGINE),
    ("/abort_requests", ENGINE),
    ("/open_session", ENGINE),
    ("/close_session", ENGINE),
    ("/set_internal_state", ENGINE),
    ("/configure_logging", ENGINE),
    ("/freeze_gc", ENGINE),
    ("/slow_down", ENGINE),
    ("/hicache", ENGINE),
    ("/init_weight_transfer_engine", ENGINE),
    ("/shutdown_weight_transfer_engine", ENGINE),
    ("/start_weight_update", ENGINE),
    ("/start_draft_weight_update", ENGINE),
    ("/finish_weight_update", ENGINE),
    ("/begin_weight_update", ENGINE),
    ("/end_weight_update", ENGINE),
    ("/destroy_weights_update_group", ENGINE),
    ("/update_weights_from_ipc", ENGINE),
    ("/init_weights_send_group_for_remote_instance", ENGINE),
    ("/send_weights_to_remote_instance", ENGINE),
    ("/remote_instance_transfer_engine_info", ENGINE),
    ("/get_remote_instance_transfer_engine_info", ENGINE),
    ("/weight_info", ENGINE),
    ("/weight_checker", ENGINE),
    ("/weights_checker", ENGINE),
    ("/release_kv_cache_memory", ENGINE),
    ("/get_world_size", ENGINE),
    ("/kv_event_sources", ENGINE),
    ("/fault_tolerance", ENGINE),
    ("/pd_role_switch", ENGINE),
    ("/load_lora_adapter_from_tensors", ENGINE),
    ("/add_external_corpus", ENGINE),
    ("/remove_external_corpus", ENGINE),
    ("/list_external_corpora", ENGINE),
    ("/dumper", ENGINE),
    ("/dump_expert_distribution_record", ENGINE),
    ("/start_expert_distribution_record", ENGINE),
    ("/stop_expert_distribution_record", ENGINE),
    ("/set_trace_level", ENGINE),
    ("/get_hicache_l3_cache_layout", ENGINE),
    ("/v1/loads", ENGINE),
    ("/tools", ENGINE),
    ("/cors-proxy", ENGINE),
    ("/props", ENGINE),
    ("/slots", ENGINE),
    ("/server_info", ENGINE),
    ("/get_server_info", ENGINE),
    ("/get_model_info", ENGINE),
    ("/model_info", ENGINE),
    ("/get_load", ENGINE),
    ("/load", ENGINE),
    ("/version", ENGINE),
    ("/info", ENGINE),
    ("/ping", ENGINE),
    ("/health_generate", ENGINE),
    ("/v1/complete", OLDER),
    ("/v1/edits", OLDER),
    ("/v1/engines", DEPLOYMENTS),
    ("/v1/organization", ACCOUNTS),
    ("/v1/organizations", ACCOUNTS),
    ("/v1/projects", ACCOUNTS),
    ("/v1/user_profiles", ACCOUNTS),
    ("/metrics", OPERATOR),
    ("/admin", OPERATOR),
    ("/api", OLLAMA),
    ("/openai/deployments", DEPLOYMENTS),
    ("/openai/responses", DEPLOYMENTS),
    ("/ws", SOCKETS),
];

/// The remedy for a path that is not served.
#[must_use]
pub fn remedy(path: &str) -> &'static str {
    let serves = |path: &str| Endpoint::of(path) != Endpoint::Other;
    let plain = plain(path);
    if plain != path && serves(&plain) {
        return LITERAL;
    }
    if path.starts_with("/v1/v1/") && serves(&path[3..]) {
        return TWICE;
    }
    let later = path.rfind("/v1/").filter(|at| *at > 0);
    if later.is_some_and(|at| serves(&path[at..])) || serves(&format!("/v1{path}")) {
        return BEGIN;
    }
    let below = |start: &str| {
        path.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    TABLE.iter().find(|(start, _)| below(start)).map_or(UNKNOWN, |(_, remedy)| remedy)
}

/// The path in lower case and with single slashes.
fn plain(path: &str) -> String {
    let mut plain = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !plain.ends_with('/') {
            plain.push(c.to_ascii_lowercase());
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    // Each entry of the table can be reached, and none hides a path that is served.
    #[test]
    fn reached() {
        for (path, expected) in TABLE {
            if path != "/v1/responses" && path != "/v1/chat/completions" {
                assert_eq!(Endpoint::of(path), Endpoint::Other, "{path}");
                assert_eq!(remedy(path), expected, "{path}");
            }
            assert_eq!(remedy(&format!("{path}/x/y")), expected, "{path}/x/y");
        }
    }

    // A path that is nearly right is corrected, and an unknown one leads to the key `paths`.
    #[test]
    fn near_misses() {
        for (path, expected) in [
            ("//v1/chat/completions", LITERAL),
            ("/V1/Chat/Completions", LITERAL),
            ("/v1//embeddings", LITERAL),
            ("/v1/v1/messages", TWICE),
            ("/chat/completions", BEGIN),
            ("/audio/transcriptions", BEGIN),
            ("/models", BEGIN),
            ("/api/v1/chat/completions", BEGIN),
            ("/openai/v1/responses", BEGIN),
            ("/openai/deployments/m/chat/completions", DEPLOYMENTS),
            ("/v1/chat/completions/chatcmpl-1/messages", CHATS),
            ("/v1/responses/a/b", RESPONSES),
            ("/generate", UNKNOWN),
            ("/v1/filesystem", UNKNOWN),
            ("/", UNKNOWN),
            ("", UNKNOWN),
        ] {
            assert_eq!(remedy(path), expected, "{path}");
        }
    }
}
