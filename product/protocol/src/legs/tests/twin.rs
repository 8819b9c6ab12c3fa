//! Generated bodies: each leg differs from the client's body only in the documented members.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::{ALL, Added};
use super::{PAIR, by_name, handed, info, sent};
use crate::openai::Endpoint::{self, ChatCompletions, Completions, Messages, Responses};
use crate::openai::{Splices, prefill_leg};

/// Members, with values that a client may send.
const MEMBERS: [(&str, &[&str]); 20] = [
    ("max_tokens", &["5", "null", "1"]),
    ("max_completion_tokens", &["7", "null"]),
    ("max_output_tokens", &["9", "null"]),
    ("stream", &["true", "false", "null"]),
    (
        "stream_options",
        &["null", "{}", "{\"include_usage\":true}", "{ \"x\":1,\"include_usage\" : false }"],
    ),
    ("min_tokens", &["3", "null", "0"]),
    ("n", &["1", "null"]),
    ("best_of", &["1"]),
    ("echo", &["false"]),
    ("prompt_logprobs", &["null"]),
    ("truncation", &["\"disabled\""]),
    ("temperature", &["1.0e-1"]),
    ("cache_salt", &["\"own\"", "null"]),
    ("metadata", &["{\"max_tokens\":4,\"stream\":true,\"kv_transfer_params\":{}}"]),
    ("thinking", &["{\"type\":\"enabled\",\"budget_tokens\":1024}"]),
    ("x", &["\"a,b:{}\\\"\"", "[ ]"]),
    ("kv_transfer_params", &["null", "{\"do_remote_prefill\":true}"]),
    ("bootstrap_room", &["7", "[1,2]"]),
    ("rid", &["\"r\""]),
    ("data_parallel_rank", &["0"]),
];

/// The members that the gateway removes from every request.
const STRIPPED: [&str; 4] = ["kv_transfer_params", "bootstrap_room", "rid", "data_parallel_rank"];

const GAPS: [&str; 4] = ["", " ", "\n\t", "  \r\n"];

fn own(endpoint: Endpoint) -> [&'static str; 2] {
    match endpoint {
        Completions => ["prompt", "\"once\""],
        Responses => [
            "input",
            "[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"user\",\"content\":\"b\"}]",
        ],
        _ => ["messages", "[{\"role\":\"user\",\"content\":\"hi\"}]"],
    }
}

/// An endpoint and a body for it.
fn body() -> impl Strategy<Value = (Endpoint, String)> {
    let endpoint = prop::sample::select(vec![ChatCompletions, Completions, Messages, Responses]);
    let chosen =
        prop::sample::subsequence((0..MEMBERS.len()).collect::<Vec<_>>(), 0..=MEMBERS.len());
    let styles = prop::collection::vec(any::<u8>(), MEMBERS.len() + 2);
    (endpoint, chosen, styles).prop_flat_map(|(endpoint, chosen, styles)| {
        let [prompt, text] = own(endpoint);
        let mut members = vec![("model", "\"m\""), (prompt, text)];
        members.extend(chosen.iter().map(|i| {
            let (name, values) = MEMBERS[*i];
            (name, values[usize::from(styles[*i]) % values.len()])
        }));
        (Just(endpoint), Just(members).prop_shuffle(), Just(styles))
            .prop_map(|(endpoint, members, styles)| (endpoint, write(&members, &styles)))
    })
}

fn write(members: &[(&str, &str)], styles: &[u8]) -> String {
    let mut out = String::from("{");
    for (i, ((name, value), style)) in members.iter().zip(styles).enumerate() {
        let gap = GAPS[usize::from(style % 4)];
        // Some names have an escape.
        let name = match style {
            200.. => format!("\\u{:04x}{}", u32::from(name.as_bytes()[0]), &name[1..]),
            _ => (*name).to_owned(),
        };
        let comma = if i == 0 { "" } else { "," };
        out += &format!("{comma}{gap}\"{name}\"{gap}:{gap}{value}{gap}");
    }
    out + "}"
}

type Members = BTreeMap<String, String>;

/// The documented rule, implemented a second time.
fn limited(endpoint: Endpoint, client: &Members, salt: bool) -> Members {
    let mut leg = client.clone();
    leg.retain(|name, _| !STRIPPED.contains(&&**name));
    leg.retain(|name, _| name != "stream_options" && name != "min_tokens");
    let own: &[&str] = match endpoint {
        ChatCompletions => &["max_tokens", "max_completion_tokens"],
        Responses => &["max_output_tokens"],
        _ => &["max_tokens"],
    };
    if !own.iter().any(|name| leg.contains_key(*name)) {
        leg.insert(own[0].to_owned(), "1".to_owned());
    }
    for name in ["max_tokens", "max_completion_tokens", "max_output_tokens"] {
        leg.entry(name.to_owned()).and_modify(|limit| *limit = "1".to_owned());
    }
    leg.insert("stream".to_owned(), "false".to_owned());
    if salt {
        leg.insert("cache_salt".to_owned(), "\"5a17\"".to_owned());
    }
    leg
}

/// The additions as members.
fn added(added: &Added) -> Members {
    let members = String::from_utf8(added.members.concat()).expect("text");
    by_name(&format!("{{{members}}}"))
}

proptest! {
    // Both legs of every protocol are valid JSON without a doubled name, and are as the twin's.
    #[test]
    fn as_the_twin((endpoint, text) in body(), salt in any::<bool>()) {
        let (client, body) = (by_name(&text), Bytes::from(text.into_bytes()));
        let mut info = info(endpoint, &body);
        if salt {
            info.salt("5a17");
        }
        let leg = prefill_leg(endpoint, &body, &info.splices).expect("one prompt, one answer");
        let limited = limited(endpoint, &client, salt);
        let usual = by_name(&sent(&body, &info.splices, &Added::default()));
        for protocol in ALL {
            let prefill = (protocol.prefill)(&PAIR).expect("a whole pair");
            let (splices, expected) = match protocol.limits_prefill {
                true => (&leg, &limited),
                false => (&info.splices, &usual),
            };
            let both = |own: &Members, more: &Added| {
                let mut own = own.clone();
                own.extend(added(more));
                own
            };
            prop_assert_eq!(by_name(&sent(&body, splices, &prefill)), both(expected, &prefill));
            let decode = (protocol.decode)(&PAIR, Some(&handed())).expect("a whole pair");
            let found = by_name(&sent(&body, &info.splices, &decode));
            prop_assert_eq!(found, both(&usual, &decode));
        }
    }

    // Damaged bodies have a leg or a reason for none.
    #[test]
    fn damaged((endpoint, text) in body(), at in any::<prop::sample::Index>(), byte in prop::sample::select(b"{}[]\",:0\\ \xff".to_vec())) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let body = Bytes::from(bytes);
        if let Ok(leg) = prefill_leg(endpoint, &body, &Splices::default()) {
            by_name(&sent(&body, &leg, &Added::default()));
        }
    }
}
