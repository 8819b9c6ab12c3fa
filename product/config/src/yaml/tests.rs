use proptest::prelude::*;

use super::path::Path;
use super::*;
use crate::{Control, Gateway, replica_list};

fn problems(yaml: &str) -> Vec<String> {
    let error = Gateway::read(yaml).expect_err("is wrong");
    let line = |line: Option<usize>| line.map_or("-".to_owned(), |line| line.to_string());
    error.problems.iter().map(|p| format!("{}: {}", line(p.line), p.text)).collect()
}

// Mistakes of shape and of value are reported together, in the order of the file, each with its
// line. A part that cannot be read hides no other part.
#[test]
fn all_mistakes_at_once() {
    let found = problems(
        "version: 1
listne: 127.0.0.1:1
attempts: many
replicas:
  - http://a:1
  - url: b:8000
  - {url: 'http://c:1', weight: '2'}
  - url: http://d:1
    weight: 0
limits: [1]
timeouts: {connect: 30, idle: 0s}
policy: meridain
attempts: 2
",
    );
    let starts = [
        "2: listne: unknown field; did you mean `listen`?",
        "3: attempts: `many` is not a whole number",
        "5: replicas[0]: `http://a:1` is an address alone; write `url: http://a:1`",
        "6: replicas[1].url: `b:8000` has no scheme; write `http://b:8000`",
        "7: replicas[2].weight: `2` is in quotes",
        "9: replicas[3].weight: 0",
        "10: limits: is a list; remove the dashes",
        "11: timeouts.connect: `30` has no unit; write 30s, 30ms or 30m",
        "11: timeouts.idle: 0",
        "12: policy: `meridain` is unknown; did you mean `meridian`?",
        "13: attempts: is given on line 3 already",
    ];
    assert_eq!(found.len(), starts.len(), "{found:#?}");
    for (found, start) in found.iter().zip(starts) {
        assert!(found.starts_with(start), "{start} is not the start of {found}");
    }
}

// A problem that only follows from a part that could not be read is not reported.
#[test]
fn consequences_are_left_out() {
    let yaml = "version: 1
tenants: acme
residency:
  rules:
    - {name: a, tenants: [acme], run_in: [eu]}
";
    let found = problems(yaml);
    assert!(matches!(found.as_slice(), [one] if one.starts_with("2: tenants: ")), "{found:#?}");
}

// A value in a place that may hold a secret is not shown.
#[test]
fn secrets_stay_out() {
    for yaml in [
        "admin_access: swordfish",
        "admin_access: {tokens: swordfish}",
        "tenants: [swordfish]",
        "tenants: [{name: a, keys: swordfish}]",
        "tenants: {swordfish: a}\nkeys: swordfish",
        "control: swordfish",
        "engine_key: [swordfish]",
        "engine_key:swordfish",
        "replicas: [{url: 'http://me:swordfish@a:1'}]",
        "replicas: ['http://me:swordfish@a:1']",
        "secret: swordfish\nsecret: swordfish",
        "secret: \"swordfish",
        "secret: swordfish\n\tlisten: swordfish",
    ] {
        let found = problems(&format!("version: 1\n{yaml}\n"));
        assert!(!found.concat().contains("swordfish"), "{found:#?}");
    }
}

// Forms that the serializer's reader accepts are not reported here: anchors, merged sections, empty
// values, flow style.
#[test]
fn valid_files_have_no_problems() {
    for yaml in [
        "version: 1\nreplicas:\n",
        "version: 1\nreplicas: &all\n  - &one {url: 'http://a:1'}\n  - {<<: *one, url: 'http://b:1'}\n",
        "# text\nversion: 1\ntimeouts: {connect: 1s}\nheld:\n",
        "{\"version\": 1, \"replicas\": [{\"url\": \"http://a:1\"}]}",
        "version: 1\nadmission: {outstanding: 24}\npolicy: {name: chwbl, load_factor: 1.25}\n",
    ] {
        let none: fn(&Gateway) -> Vec<String> = |_| Vec::new();
        assert_eq!(diagnose(yaml, Format::Gateway, none), [], "{yaml}");
        assert!(Gateway::read(yaml).is_ok(), "{yaml}");
    }
}

// A list that is missing is reported, once: no text stands in for it.
#[test]
fn a_missing_list() {
    #[derive(serde::Deserialize)]
    struct File {
        #[serde(rename = "rows")]
        _rows: Vec<u32>,
    }
    let none: fn(&File) -> Vec<String> = |_| Vec::new();
    let found = diagnose("name: a\n", Format::Regions, none);
    assert_eq!(
        found.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["rows: is missing; add `rows: ...`"]
    );
}

// Messages of the other formats have the places of their lists and sections.
#[test]
fn other_formats() {
    let error = Control::read("version: 1\nstore: a\ntls: {ca: a}\ntarget: '0.5'\n");
    let error = error.expect_err("is wrong").to_string();
    assert!(error.contains("tls.certificate: is missing") && error.contains("(line 3)"), "{error}");
    let error = replica_list("- url: http://a:1\n- http://b:1\n- {url: 'http://a:1'}\n");
    let error = error.expect_err("is wrong").to_string();
    assert!(error.contains("[1]: `http://b:1` is an address alone"), "{error}");
    assert!(error.contains("[2].url: `http://a:1` is also [0]"), "{error}");
}

// The path at the start of a message is found; other texts have none.
#[test]
fn paths() {
    for path in ["listen", "replicas[1].url", "[0].from.eu", "residency.labels.eu-1"] {
        let found = Path::of_message(&format!("{path}: is wrong"));
        assert_eq!(found.map(|path| path.to_string()).as_deref(), Some(path));
    }
    for text in ["no colon", "two words: x", "a[x]: y", "`a`: y"] {
        assert_eq!(Path::of_message(text), None, "{text}");
    }
}

proptest! {
    // Any text gets an answer: valid, or at least one problem; and problems name lines of the file.
    #[test]
    fn any_text_has_an_answer(
        lines in prop::collection::vec("[ \t-]{0,4}(version|replicas|url|tls|policy|x)?:? ?[\\[{\"'*&]?(1|a|http://a:1|<<)?[\\]}\"]?", 0..8),
    ) {
        let yaml = lines.join("\n");
        if let Err(error) = Gateway::read(&yaml) {
            prop_assert!(!error.problems.is_empty());
            for problem in &error.problems {
                let last = yaml.lines().count() + 1;
                prop_assert!(problem.line.is_none_or(|line| (1..=last).contains(&line)), "{problem:?}");
            }
        }
    }
}
