//! The registry of policies: configs depend on its names, knobs and defaults.

use meridian_routing::policy::{Given, Params, Value};

use crate::every;

// Names are keys of configs and labels of metrics: unique, snake_case, and every default is a value
// that a config could give.
#[test]
fn the_registry_is_well_formed() {
    let snake = |s: &str| {
        let inner = s.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        inner && s.starts_with(|c: char| c.is_ascii_lowercase()) && !s.ends_with('_')
    };
    let mut names: Vec<_> = every::ALL.iter().map(|s| s.name).collect();
    assert_eq!(names.first(), Some(&"meridian"), "the default leads the list");
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), every::ALL.len(), "names are unique");
    for spec in every::ALL {
        assert!(snake(spec.name), "{}", spec.name);
        assert!(!spec.summary.is_empty() && !spec.source.is_empty(), "{}", spec.name);
        let mut knobs: Vec<_> = spec.params.iter().map(|p| p.name).collect();
        knobs.sort_unstable();
        knobs.dedup();
        assert_eq!(knobs.len(), spec.params.len(), "{}: knobs are unique", spec.name);
        for p in spec.params {
            assert!(snake(p.name), "{}.{}", spec.name, p.name);
            let given = match &p.default {
                Value::Number(n) => Given::Number(*n),
                Value::Word(w) => Given::Word((*w).into()),
                Value::Text(text) => Given::Word((**text).into()),
            };
            let complete = Params::complete(spec, &[(p.name.into(), given)]);
            assert!(complete.is_ok(), "{}.{}: its default is not allowed", spec.name, p.name);
            let ends = [p.range.0, p.range.1].map(Given::Number);
            for end in ends.into_iter().filter(|_| p.takes_numbers()) {
                let params = Params::complete(spec, &[(p.name.into(), end)]);
                let params = params.expect("the ends of a range are within it");
                let _ = (spec.build)(&params);
                let _ = (spec.index)(&params);
            }
        }
    }
}

// Unknown names and values out of range are all reported at once.
#[test]
fn wrong_knobs_are_all_named() {
    let spec = every::find("chwbl").expect("registered");
    let given = [
        ("load_facter".to_owned(), Given::Number(4.0)),
        ("load_factor".to_owned(), Given::Word("sometimes".into())),
        ("head_bytes".to_owned(), Given::Number(0.0)),
    ];
    let errors = Params::complete(spec, &given).expect_err("three mistakes");
    assert_eq!(errors.len(), 3, "{errors:?}");
}
