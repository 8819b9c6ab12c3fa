//! The protocols in the documentation.

use super::super::{ALL, Order};

// The user's page has a row for each protocol, as the table declares it, and no further one.
#[test]
fn every_protocol_has_its_row() {
    let page = include_str!("../../../../../docs/prefill-decode.md");
    let (_, section) = page.split_once("\n## Protocols\n").expect("has the section");
    let (section, _) = section.split_once("\n## ").expect("is not the last section");
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = ALL
        .iter()
        .map(|protocol| {
            let order = match protocol.order {
                Order::PrefillFirst => "prefill first",
                Order::Together => "both at once",
                Order::DecodeOnly => "decode only",
            };
            let port = protocol.bootstrap_port.map_or(String::new(), |port| format!("{port} "));
            format!("| `{}` | {} | {order} | {port}|", protocol.name, protocol.summary)
        })
        .collect();
    assert_eq!(rows, expected);
}
