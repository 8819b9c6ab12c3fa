//! Requests of clients with the fields by which engines hand over KV. Three of them end a vLLM
//! process that gets them; others make it wait, hold KV or refuse.

use serde_json::{Value, json};

use super::engines::Place;

/// One such request: an ordinary one with further members or a header.
pub(super) struct Hostile {
    pub(super) name: &'static str,
    /// Members as they are written into the body: `"name":value`, or nothing.
    members: String,
    pub(super) header: Option<(&'static str, &'static str)>,
}

impl Hostile {
    /// The body of an ordinary request with the members in front of its own.
    pub(super) fn body(&self, ordinary: &Value) -> String {
        let body = ordinary.to_string();
        if self.members.is_empty() { body } else { format!("{{{},{}", self.members, &body[1..]) }
    }

    fn of(name: &'static str, members: impl Into<String>) -> Hostile {
        Hostile { name, members: members.into(), header: None }
    }

    fn kv(name: &'static str, params: &Value) -> Hostile {
        Hostile::of(name, format!("\"kv_transfer_params\":{params}"))
    }
}

/// Members that need no knowledge of the engines.
const MEMBERS: [(&str, &str); 10] = [
    ("`do_remote_prefill` alone", r#""kv_transfer_params":{"do_remote_prefill":true}"#),
    (
        "`do_remote_decode`, which holds blocks",
        r#""kv_transfer_params":{"do_remote_prefill":false,"do_remote_decode":true}"#,
    ),
    ("params that are not an object", r#""kv_transfer_params":7"#),
    (
        "an escaped name",
        r#""kv\u005ftransfer_params":{"do_remote_prefill":true,"do_remote_decode":false}"#,
    ),
    (
        "the name twice",
        r#""kv_transfer_params":null,"kv_transfer_params":{"do_remote_prefill":true}"#,
    ),
    (
        "inside `vllm_xargs`",
        r#""vllm_xargs":{"kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false}}"#,
    ),
    ("`ec_transfer_params`", r#""ec_transfer_params":{"do_remote_encode":true,"id":"0"}"#),
    (
        "`bootstrap_*`",
        r#""bootstrap_host":"127.0.0.1","bootstrap_port":9,"bootstrap_room":1,"bootstrap_pair_key":"0""#,
    ),
    (
        "`disaggregated_params`, `request_id`",
        r#""disaggregated_params":{"request_type":"generation_only"},"request_id":"another""#,
    ),
    (
        "data-parallel ranks",
        r#""data_parallel_rank":7,"routed_dp_rank":7,"disagg_prefill_dp_rank":7"#,
    ),
];

const HEADERS: [(&str, (&str, &str)); 2] = [
    ("header `x-data-parallel-rank`", ("x-data-parallel-rank", "7")),
    ("header `x-prefiller-host-port`", ("x-prefiller-host-port", "127.0.0.1:9")),
];

/// The shortest body that ends an engine.
pub(super) fn shortest() -> Hostile {
    let alone = json!({"do_remote_prefill": true, "do_remote_decode": false});
    Hostile::kv("`do_remote_prefill` without anything to fetch", &alone)
}

/// Parameters as a decode engine gets them, with the prefill engine's true id and side channel.
fn whole(prefill: &Place) -> Value {
    json!({
        "do_remote_prefill": true, "do_remote_decode": false, "transfer_mode": "pull",
        "remote_block_ids": [[1, 2, 3, 4, 5, 6, 7, 8, 9]],
        "remote_engine_id": prefill.engine_id(),
        "remote_request_id": "cmpl-of-another-client-0-00000000",
        "remote_host": "127.0.0.1", "remote_port": prefill.side,
        "tp_size": 1, "dcp_size": 1, "pp_size": 1, "remote_num_tokens": 270,
        "remote_blocks_expiry_time": null, "remote_prefill_cached_tokens": 0,
    })
}

/// All of them.
pub(super) fn all(prefill: &Place) -> Vec<Hostile> {
    let with = |name, change: fn(&mut Value)| {
        let mut params = whole(prefill);
        change(&mut params);
        Hostile::kv(name, &params)
    };
    let params = [
        shortest(),
        with("another request's blocks", |_| ()),
        with("no `remote_request_id`", |params| {
            params.as_object_mut().expect("an object").remove("remote_request_id");
        }),
        with("fewer block ids than needed", |params| params["remote_block_ids"] = json!([[1]])),
        with("block ids out of range", |params| params["remote_block_ids"] = json!([[900_000]])),
        with("unknown engine id", |params| params["remote_engine_id"] = "of-no-engine".into()),
        with("dead side-channel port", |params| {
            params["remote_engine_id"] = "of-no-engine-either".into();
            params["remote_port"] = 9.into();
        }),
    ];
    let members = MEMBERS.map(|(name, members)| Hostile::of(name, members));
    let headers =
        HEADERS.map(|(name, header)| Hostile { header: Some(header), ..Hostile::of(name, "") });
    params.into_iter().chain(members).chain(headers).collect()
}
