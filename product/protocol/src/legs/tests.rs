//! Tests of the protocols, on recorded exchanges (`tests/recorded/SOURCE.md`) and generated bodies.

mod documented;
mod handed;
mod ranks;
mod recorded;
mod table;
mod twin;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::Value;

use super::unique::members;
use super::{ALL, Added, Handed, Pair};
use crate::openai::{Endpoint, Purpose, Reading, RequestInfo, Splices, read};

const PAIR: Pair<'_> = Pair {
    id: 0xfedc_ba98_7654_3210,
    host: "10.0.0.7",
    port: 8000,
    bootstrap_host: None,
    bootstrap_port: None,
    engine_id: Some("engine-1"),
    rank: Some(3),
    ttft_left_ms: None,
};

/// A recorded file.
macro_rules! recording {
    ($name:literal) => {
        serde_json::from_str::<serde_json::Value>(include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/legs/tests/recorded/",
            $name,
            ".json"
        )))
        .expect("a recorded file is JSON")
    };
}
use recording;

/// The prefill's answer of a recording.
fn answer(recording: &Value) -> Bytes {
    Bytes::copy_from_slice(recording["prefill_answer"].as_str().expect("text").as_bytes())
}

fn handed() -> Handed {
    Handed::read(Endpoint::Completions, &answer(&recording!("completions"))).expect("recorded")
}

fn info(endpoint: Endpoint, body: &Bytes) -> RequestInfo {
    let reading =
        Reading { seed: 7, block_bytes: 8, head_bytes: 16, tenant_scope: None, counts: false };
    read(endpoint, body, &reading).expect("a good body")
}

/// The body with all splices and a protocol's members.
fn sent(body: &Bytes, splices: &Splices, added: &Added) -> String {
    let pieces = splices.with_members(body, &added.members).apply(body, |_| true);
    String::from_utf8(pieces.concat()).expect("text stays text")
}

/// The members of a body by name, as text. Fails if it is not valid JSON or has a member twice.
fn by_name(body: &str) -> BTreeMap<String, String> {
    let members = members(body, 100).unwrap_or_else(|| panic!("not one object: {body}"));
    members.into_iter().map(|(name, value)| (name, value.get().to_owned())).collect()
}

// A client cannot send what the legs tell their engines: each member and each header is private.
#[test]
fn additions_are_private() {
    let handed = handed();
    for protocol in ALL {
        let decode = (protocol.decode)(&PAIR, Some(&handed)).expect("a whole pair");
        let prefill = (protocol.prefill)(&PAIR).expect("a whole pair");
        let clean = r#"{"model":"m","prompt":"x"}"#;
        for added in [&prefill, &decode] {
            let body = Bytes::from(clean);
            let dirty = sent(&body, &Splices::default(), added).replace("\"min_tokens\":1,", "");
            let dirty = Bytes::from(dirty.into_bytes());
            let splices = info(Endpoint::Completions, &dirty).splices;
            let left = splices.apply(&dirty, |p| matches!(p, Purpose::Strip(_))).concat();
            assert_eq!(String::from_utf8_lossy(&left), clean, "{protocol:?}");
            for (header, _) in &added.headers {
                let mut headers = crate::engines::private().flat_map(|words| words.headers);
                assert!(headers.any(|known| *known == header.as_str()), "{header}");
            }
        }
    }
}
