//! Properties of every entry of the table.

use std::collections::BTreeSet;

use super::super::{ALL, Answers, NONE, detect, find, private};

// Names are unique, valid in a configuration, and not `auto`. The last engine stands for any other
// server.
#[test]
fn names() {
    let names: BTreeSet<_> = ALL.iter().map(|engine| engine.name).collect();
    assert_eq!(names.len(), ALL.len());
    assert!(!names.contains("auto"));
    assert_eq!(ALL.last(), Some(&NONE));
    for engine in ALL {
        let is_word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        assert!(engine.name.chars().all(is_word), "{}", engine.name);
        assert_eq!(find(engine.name), Some(*engine));
    }
}

// A page with an engine's prefix is recognized as that engine's.
#[test]
fn marks_are_distinct() {
    for engine in ALL {
        for prefix in engine.detect.metrics {
            let page = format!("{prefix}anything 1\n");
            let metrics = Some(page.as_bytes());
            assert_eq!(detect(&Answers { metrics, ..Answers::default() }), Some(*engine));
        }
    }
}

// An engine that reports a load can be detected, and every page has a path and a remedy.
#[test]
fn pages() {
    for engine in ALL {
        assert_eq!(engine.load.is_some(), !engine.detect.metrics.is_empty(), "{engine:?}");
        assert!(engine.health.starts_with('/'));
        for page in engine.load.into_iter().chain(engine.capacity) {
            assert!(page.path.starts_with('/') && !page.remedy.is_empty(), "{engine:?}");
        }
    }
}

// Private fields are listed once, headers in the case used for comparison.
#[test]
fn private_words() {
    let mut seen = BTreeSet::new();
    for words in private() {
        for name in words.fields.iter().chain(words.containers).chain(words.headers) {
            assert!(seen.insert(*name), "{name}");
        }
        for header in words.headers {
            assert_eq!(*header, header.to_lowercase());
            assert!(header.starts_with("x-"), "{header}");
        }
    }
}
