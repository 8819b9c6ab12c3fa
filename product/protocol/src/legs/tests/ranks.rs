//! The answer of Mooncake's bootstrap server.

use proptest::prelude::*;

use super::super::{Rank, ranks};

// The ranks in the order of their numbers; unknown members pass.
#[test]
fn whole() {
    let page = br#" {"10":{"engine_id":"b"}, "2":{"worker_addr":{"0":{"0":"tcp://h:1"}},"engine_id":"a"}} "#;
    let rank = |rank, id: &str| Rank { rank, engine_id: id.to_owned() };
    assert_eq!(ranks(page), Ok(vec![rank(2, "a"), rank(10, "b")]));
}

// Each odd page is refused, with a remedy.
#[test]
fn odd() {
    let many = (0..1025).map(|n| format!("\"{n}\":{{\"engine_id\":\"e\"}}")).collect::<Vec<_>>();
    let long = format!("{{\"0\":{{\"engine_id\":\"{}\"}}}}", "e".repeat(257));
    let table: [(&[u8], &str); 16] = [
        (b"", "not one JSON object"),
        (b"[]", "not one JSON object"),
        (b"null", "not one JSON object"),
        (b"\xff", "not UTF-8"),
        (b"{}", "no rank yet"),
        (b"{\"detail\":\"Not Found\"}", "not a rank"),
        (b"{\"-1\":{\"engine_id\":\"e\"}}", "not a rank"),
        (b"{\"01\":{\"engine_id\":\"e\"}}", "not a rank"),
        (b"{\"0\":{}}", "without an `engine_id`"),
        (b"{\"0\":null}", "without an `engine_id`"),
        (b"{\"0\":{\"engine_id\":\"\"}}", "without an `engine_id`"),
        (b"{\"0\":{\"engine_id\":7}}", "without an `engine_id`"),
        (b"{\"0\":{\"engine_id\":\"e\"},\"0\":{\"engine_id\":\"f\"}}", "not one JSON object"),
        (b"{\"0\":{\"engine_id\":\"e\"}}x", "not one JSON object"),
        (&format!("{{{}}}", many.join(",")).into_bytes(), "not one JSON object"),
        (long.as_bytes(), "without an `engine_id`"),
    ];
    for (page, found) in table {
        let text = ranks(page).expect_err("odd").to_string();
        assert!(text.contains(found) && text.contains("`bootstrap`"), "{text}");
    }
    assert!(ranks(&vec![b' '; (1 << 20) + 1]).is_err());
}

proptest! {
    // Arbitrary bytes end in a list or an error.
    #[test]
    fn arbitrary(page in prop::collection::vec(prop::sample::select(b"{}\"0:1,engi_d[] \\u".to_vec()), 0..60)) {
        let _ = ranks(&page);
    }
}
