//! Our legs against the recorded ones.

use bytes::Bytes;
use serde_json::Value;

use super::super::{Handed, find};
use super::{PAIR, answer, info, recording, sent};
use crate::openai::{Endpoint, NoPrefillLeg, prefill_leg};

/// The client's body: that of the decode leg without its parameters.
fn client(recording: &Value) -> (Endpoint, Bytes) {
    let decode = &recording["decode_request"];
    let mut body = decode["body"].clone();
    body.as_object_mut().expect("an object").remove("kv_transfer_params").expect("in each");
    let endpoint = Endpoint::of(decode["path"].as_str().expect("a path"));
    (endpoint, Bytes::from(body.to_string()))
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

// Both legs are member for member those that the real engines took, and the parameters are the very
// bytes of the prefill's answer.
#[test]
fn legs_as_recorded() {
    let nixl = find("nixl").expect("known");
    let recordings = [
        recording!("completions"),
        recording!("completions-again"),
        recording!("chat-stream"),
        recording!("chat-logprobs"),
    ];
    for recording in recordings {
        let (endpoint, body) = client(&recording);
        let usual = info(endpoint, &body).splices;
        let leg = prefill_leg(endpoint, &body, &usual).expect("one prompt, one answer");
        let added = (nixl.prefill)(&PAIR).expect("needs nothing");
        assert_eq!(json(&sent(&body, &leg, &added)), recording["prefill_request"]["body"]);

        let answer = answer(&recording);
        let handed = Handed::read(endpoint, &answer).expect("a good answer");
        let added = (nixl.decode)(&PAIR, Some(&handed)).expect("needs nothing");
        assert_eq!(json(&sent(&body, &usual, &added)), recording["decode_request"]["body"]);
        assert!(answer.as_ptr_range().contains(&added.members[1].as_ptr()), "a copy");
    }
}

// Of several prompts or answers the prefill's answer names one, so there is no prefill leg, and
// such an answer would not be used.
#[test]
fn several_go_whole() {
    let table = [
        (recording!("completions-batch"), NoPrefillLeg::Prompts),
        (recording!("completions-n2"), NoPrefillLeg::Answers),
    ];
    for (recording, reason) in table {
        let (endpoint, body) = client(&recording);
        let usual = info(endpoint, &body).splices;
        assert_eq!(prefill_leg(endpoint, &body, &usual), Err(reason));
        let handed = Handed::read(endpoint, &answer(&recording)).map(|_| ());
        assert_eq!(handed, Err(super::super::NoParams::Unfinished));
    }
}
