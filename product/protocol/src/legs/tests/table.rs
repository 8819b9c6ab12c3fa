//! Properties of every entry of the table, and each protocol's additions.

use std::collections::BTreeSet;

use expect_test::expect;

use super::super::{ALL, Added, Handed, Order, Pair, find};
use super::{PAIR, handed};

/// Members and headers, one a line.
fn print(added: &Added) -> String {
    let members = String::from_utf8(added.members.concat()).expect("text");
    let headers = added.headers.iter().map(|(name, value)| format!("{name}: {value:?}"));
    std::iter::once(members)
        .chain(headers)
        .filter(|line| !line.is_empty())
        .fold(String::new(), |out, line| out + &line + "\n")
}

fn both(name: &str, pair: &Pair<'_>, handed: Option<&Handed>) -> String {
    let protocol = find(name).expect("a known protocol");
    let prefill = (protocol.prefill)(pair).map(|added| print(&added));
    let decode = (protocol.decode)(pair, handed).map(|added| print(&added));
    let text = |leg: Result<String, super::super::Lacks>| leg.unwrap_or_else(|e| format!("{e}\n"));
    format!("prefill:\n{}decode:\n{}", text(prefill), text(decode))
}

// Names are unique and valid in a configuration, and every text is there.
#[test]
fn names() {
    let names: BTreeSet<_> = ALL.iter().map(|protocol| protocol.name).collect();
    assert_eq!(names.len(), ALL.len());
    for protocol in ALL {
        assert!(protocol.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'));
        assert_eq!(find(protocol.name), Some(*protocol));
        assert!(!protocol.summary.is_empty() && !protocol.source.is_empty());
    }
    assert_eq!(find("none"), None);
}

// The columns agree with each other: parameters come from an answer that is awaited, and a leg that
// the gateway does not send gets nothing.
#[test]
fn columns() {
    for protocol in ALL {
        assert!(!protocol.hands_over || protocol.order == Order::PrefillFirst, "{protocol:?}");
        assert!(!protocol.needs_limit || protocol.limits_prefill, "{protocol:?}");
        if protocol.order == Order::DecodeOnly {
            assert_eq!((protocol.prefill)(&PAIR), Ok(Added::default()), "{protocol:?}");
        }
    }
}

// Without good parameters, a decode leg that depends on them is an ordinary request.
#[test]
fn null_is_safe() {
    for protocol in ALL.iter().filter(|protocol| protocol.hands_over) {
        assert_eq!((protocol.decode)(&PAIR, None), Ok(Added::default()), "{protocol:?}");
    }
}

#[test]
fn nixl() {
    expect![[r#"
        prefill:
        "kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,"remote_block_ids":null,"remote_host":null,"remote_port":null}
        decode:
        "kv_transfer_params":{"do_remote_prefill":true,"do_remote_decode":false,"remote_block_ids":[[1,2,3,4,5,6,7,8,9,10,11,12]],"remote_engine_id":"1af57ba3-1427-41ee-b815-d6ad3e2bc748","remote_request_id":"cmpl-meridian-r1-0-9c814bd2","remote_host":"127.0.0.1","remote_port":15600,"tp_size":1,"dcp_size":1,"pp_size":1,"remote_num_tokens":382,"remote_blocks_expiry_time":null,"transfer_mode":"pull","remote_prefill_cached_tokens":0}
    "#]]
    .assert_eq(&both("nixl", &PAIR, Some(&handed())));
}

// The rest of a TTFT objective goes into the params of both legs, where connectors find it.
#[test]
fn the_budget_travels_in_the_params() {
    let pair = Pair { ttft_left_ms: Some(812), ..PAIR };
    for name in ["nixl", "mooncake"] {
        let legs = both(name, &pair, Some(&handed()));
        let whole = legs.replace("\"slo_ttft_ms\":812,", "");
        assert_eq!(legs.matches("\"kv_transfer_params\":{\"slo_ttft_ms\":812,\"do_").count(), 2);
        assert_eq!(whole, both(name, &PAIR, Some(&handed())), "{name}");
    }
}

#[test]
fn mooncake() {
    expect![[r#"
        prefill:
        "min_tokens":1,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"xfer-fedcba9876543210"}
        x-data-parallel-rank: "3"
        decode:
        "kv_transfer_params":{"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":"xfer-fedcba9876543210","remote_engine_id":"engine-1","remote_bootstrap_addr":"http://10.0.0.7:8998"}
    "#]]
    .assert_eq(&both("mooncake", &PAIR, None));
    // The bootstrap server elsewhere, no known rank, no known engine.
    let pair = Pair {
        bootstrap_host: Some("fd00::1"),
        bootstrap_port: Some(9000),
        engine_id: Some("\"e\\"),
        rank: None,
        ..PAIR
    };
    expect![[r#"
        prefill:
        "min_tokens":1,"kv_transfer_params":{"do_remote_decode":true,"do_remote_prefill":false,"transfer_id":"xfer-fedcba9876543210"}
        decode:
        "kv_transfer_params":{"do_remote_decode":false,"do_remote_prefill":true,"transfer_id":"xfer-fedcba9876543210","remote_engine_id":"\"e\\","remote_bootstrap_addr":"http://[fd00::1]:9000"}
    "#]]
    .assert_eq(&both("mooncake", &pair, None));
    let decode = (find("mooncake").expect("known").decode)(&Pair { engine_id: None, ..PAIR }, None);
    assert_eq!(decode.map_err(|lacks| lacks.field), Err("engine_id"));
}

// The legs' bodies are equal, and the room fits into a signed number.
#[test]
fn sglang() {
    expect![[r#"
        prefill:
        "bootstrap_host":"10.0.0.7","bootstrap_port":8998,"bootstrap_room":9182379272246532360
        decode:
        "bootstrap_host":"10.0.0.7","bootstrap_port":8998,"bootstrap_room":9182379272246532360
    "#]]
    .assert_eq(&both("sglang", &PAIR, None));
    let most = both("sglang", &Pair { id: u64::MAX, ..PAIR }, None);
    assert!(most.contains(&format!("\"bootstrap_room\":{}\n", i64::MAX)), "{most}");
}

#[test]
fn ordered_and_header() {
    expect![[r#"
        prefill:
        decode:
    "#]]
    .assert_eq(&both("ordered", &PAIR, None));
    expect![[r#"
        prefill:
        decode:
        x-prefiller-host-port: "[fd00::1]:8000"
    "#]]
    .assert_eq(&both("header", &Pair { host: "fd00::1", ..PAIR }, None));
    let decode = (find("header").expect("known").decode)(&Pair { host: "a\nb", ..PAIR }, None);
    assert_eq!(decode.map_err(|lacks| lacks.field), Err("host"));
}
