use meridian_protocol::policy::Scalar;

use super::*;

// The shortest configuration works, and its printed form reads back as the same.
#[test]
fn short_config_prints_whole_and_reads_back() {
    let config =
        Gateway::read("version: 1\nreplicas:\n  - url: http://127.0.0.1:9001\n").expect("is valid");
    let printed = config.print().expect("prints");
    assert!(printed.contains("first_byte: 10m"), "{printed}");
    assert_eq!(Gateway::read(&printed).expect("reads back"), config);
}

// A policy is a name, or a name with parameters. The error about a wrong parameter lists the
// allowed ones.
#[test]
fn policy_forms() {
    let read = |policy: &str| Gateway::read(&format!("version: 1\npolicy: {policy}\n"));
    assert_eq!(read("round_robin").expect("is valid").policy.name, "round_robin");
    assert_eq!(read("{name: random}").expect("is valid").policy.name, "random");
    let error = read("fastest").expect_err("is unknown").to_string();
    assert!(
        error.contains("`fastest` is unknown; use one of meridian, random, round_robin"),
        "{error}"
    );
    let error = read("gorgo").expect_err("is another router's").to_string();
    assert!(
        error.contains("lacks the policies of other routers (cargo feature `rivals`)"),
        "{error}"
    );
    let error = read("{name: random, speed: 9}").expect_err("has no knobs").to_string();
    assert!(error.contains("policy.speed: `random` has no such parameter"), "{error}");
    let error = read("{name: meridian, objective: fastest}").expect_err("no such word").to_string();
    let words = "policy.objective: `fastest` is unknown; use one of balanced, whole_answer";
    assert!(error.contains(words), "{error}");
}

// A text survives printing and reading. A mistake in it has its line, field, character and remedy.
#[test]
fn expressions() {
    let yaml = "version: 1\npolicy:\n  name: expression\n  score: >-\n    running\n    + 2 * queued\n  wait: off\n";
    let config = Gateway::read(yaml).expect("is valid");
    let score = Scalar::Word("running + 2 * queued".to_owned());
    assert_eq!(config.policy.params.get("score"), Some(&score));
    assert_eq!(Gateway::read(&config.print().unwrap()).expect("reads back"), config);
    for (score, part) in [
        ("2 * runing", "policy.score: character 5: `runing` is unknown; did you mean `running`?"),
        ("q * running", "policy.score: character 1: `q` is unknown; use one of prompt_tokens, "),
        ("maxof(running)", "character 1: `maxof` is unknown; did you mean `max_of`?"),
        ("max(running)", "character 1: `max` has 1 argument; write max(a, b, ...)"),
        ("3", "policy.score: 3 is not an expression; write one in quotes"),
    ] {
        let yaml = format!("version: 1\npolicy: {{name: expression, score: \"{score}\"}}\n");
        let yaml = if score == "3" { yaml.replace('"', "") } else { yaml };
        let error = Gateway::read(&yaml).expect_err(score).to_string();
        assert!(error.contains(part), "{error}");
    }
}

// Admission modes in the forms of the documentation.
#[test]
fn admission_forms() {
    let read = |mode: &str| {
        Gateway::read(&format!("version: 1\nadmission: {mode}\n")).expect("is valid").admission
    };
    assert_eq!(read("pending_kv"), Some(AdmissionMode::PendingKv));
    assert_eq!(read("{outstanding: 24}"), Some(AdmissionMode::Outstanding(24)));
}

// An unknown key is an error that names it, with its line.
#[test]
fn unknown_keys_are_errors() {
    let error =
        Gateway::read("version: 1\nlistne: 127.0.0.1:1\n").expect_err("is misspelt").to_string();
    assert!(error.contains("listne"), "{error}");
    assert!(error.contains("line 2"), "{error}");
}

// An error shows no other line of the file: errors are logged, and files hold secrets.
#[test]
fn errors_keep_secrets() {
    for wrong in ["listne: 1", "listen: [", "secret: again"] {
        let yaml = format!("version: 1\nsecret: swordfish\n{wrong}\nengine_key: swordfish\n");
        let error = Gateway::read(&yaml).expect_err("cannot be read").to_string();
        assert!(!error.contains("swordfish"), "{error}");
    }
}

// All problems are reported at once, each with field, value and remedy.
#[test]
fn all_problems_at_once() {
    let yaml = "
version: 2
attempts: 0
listen: 127.0.0.1:9
admin: 127.0.0.1:9
paths: [tokenize]
timeouts: {connect: 0s}
replicas:
  - url: https://a:1/v1
  - url: http://b:1/v1
  - url: http://c:1
    weight: 0
  - url: http://c:1
";
    let problems = Gateway::read(yaml).expect_err("cannot work").problems;
    for part in [
        "version: 2",
        "attempts: 0",
        "admin: 127.0.0.1:9",
        "paths[0]: `tokenize`",
        "timeouts.connect: 0",
        "replicas[0].url: `https://a:1/v1` has a path; write `https://a:1`",
        "replicas[1].url: `http://b:1/v1` has a path; write `http://b:1`",
        "replicas[2].weight: 0",
        "replicas[3].url: `http://c:1` is also replicas[2]",
    ] {
        assert!(
            problems.iter().any(|p| p.text.contains(part)),
            "{part} is missing in {problems:#?}"
        );
    }
}

// A value that would make the start fail, or that could never have an effect, is invalid.
#[test]
fn values_have_bounds() {
    for (yaml, part) in [
        (
            "explain_keep: 99999999999",
            "explain_keep: 99999999999 is too large; use at most 1000000",
        ),
        ("credentials: {a: {}}", "credentials.a: is empty; set `ca`, `certificate` and `key`, or"),
        ("credentials: {A: {ca: f}}", "credentials: `A` is not a name; use lower-case"),
        ("credentials: {a: {engine_key: \"\"}}", "credentials.a.engine_key: is empty; write the"),
        ("credentials: {a: {engine_key: \"a b\"}}", "credentials.a.engine_key: has spaces or"),
        ("credentials: {a: {key: sk}}", "credentials.a.key: is a file without `certificate`;"),
        (
            "credentials: {a: {certificate: f}}",
            "credentials.a.certificate: is a file without `key`",
        ),
        ("credentials: {a: {ca: \"\"}}", "credentials.a.ca: is empty; name a PEM file"),
        (
            "replicas: [{url: \"http://a:1\", credentials: b}]",
            "replicas[0].credentials: `b` is not in the section `credentials`; add a section",
        ),
        (
            "credentials: {a: {engine_key: k}}\nreplicas: [{url: \"http://a:1\", credentials: b}]",
            "replicas[0].credentials: `b` is not in the section `credentials`; use a, or add it there",
        ),
        (
            "discovery: [{dns: \"a:1\", credentials: b}]",
            "discovery[0].credentials: `b` is not in the section `credentials`; add a section",
        ),
        ("kv_lease: 500ms", "kv_lease: 500 ms leaves no time to use KV; use the engines'"),
        ("threads: 100000", "threads: 100000 is too large; use at most 1024"),
        ("region: EU", "region: `EU` is not a name; use lower-case"),
        ("region: \"\"", "region: `` is not a name"),
        ("region: \"a\\nb\"", "is not a name"),
        ("region: ap_south", "region: `ap_south` is not a name"),
        ("keys: {headers: [\"x y\"]}", "keys.headers[0]: `x y` is not a header name; use"),
        ("keys: {tenant_header: \"x:y\"}", "keys.tenant_header: `x:y` is not a header name"),
        ("paths: [\"/a b\"]", "paths[0]: `/a b` matches no request"),
        ("paths: [\"/a?b\"]", "paths[0]: `/a?b` matches no request"),
        ("secret: \"\"", "secret: is empty; write the secret, or remove the line"),
    ] {
        let error = Gateway::read(&format!("version: 1\n{yaml}\n")).expect_err(yaml).to_string();
        assert!(error.contains(part), "{part} is missing in {error}");
    }
}

// A value of a wrong type is reported with its key.
#[test]
fn wrong_types_name_the_key() {
    for (yaml, key) in [
        ("listen: localhost:8080", "listen: "),
        ("limits: {replicas: 100000}", "limits.replicas: "),
        ("limits:\n  requests: -1", "limits.requests: "),
    ] {
        let error = Gateway::read(&format!("version: 1\n{yaml}\n")).expect_err(yaml).to_string();
        assert!(error.starts_with(key), "{error}");
    }
}

// A size is printed in the largest unit that does not round it.
#[test]
fn sizes_print_exactly() {
    for text in ["1B", "2920B", "1KiB", "1025KiB", "64MiB", "3GiB"] {
        let size: Size = serde_json::from_str(&format!("\"{text}\"")).expect("reads");
        assert_eq!(serde_json::to_string(&size).expect("prints"), format!("\"{text}\""));
    }
}

// Units are part of values; a bare number is refused with the remedy.
#[test]
fn units() {
    let read = |yaml: &str| Gateway::read(&format!("version: 1\n{yaml}\n"));
    assert_eq!(read("limits: {body: 64KiB}").expect("is valid").limits.body, Size::kib(64));
    let error = read("timeouts: {connect: 250}").expect_err("has no unit").to_string();
    assert!(
        error.contains("250ms") || error.contains("unit") || error.contains("string"),
        "{error}"
    );
}

// Peers in the form of the documentation; absent fields have their defaults.
#[test]
fn peers_form() {
    let yaml = "
version: 1
region: us
peers:
  listen: 0.0.0.0:9000
  ca: ca.crt
  certificate: us-1.crt
  key: us-1.key
  continent: america
  gateways:
    - {name: eu-1, region: eu, continent: europe, address: \"eu.example.org:8082\"}
    - {name: ca-1, region: ca, continent: america, address: \"[::1]:8082\"}
";
    let config = Gateway::read(yaml).expect("is valid");
    let peers = config.peers.as_ref().expect("are there");
    assert_eq!((peers.push, peers.beat), (Span::millis(20), Span::millis(100)));
    assert_eq!(peers.gateways.iter().map(|p| peers.is_near(p)).collect::<Vec<_>>(), [false, true]);
    let printed = config.print().expect("prints");
    assert_eq!(Gateway::read(&printed).expect("reads back"), config);
}

// Problems with peers are reported with field and remedy.
#[test]
fn peers_problems() {
    let yaml = "
version: 1
region: Europe West
peers:
  ca: \"\"
  certificate: a.crt
  key: a.key
  push: 200ms
  gone: 50ms
  gateways:
    - {name: eu-1, region: eu, address: eu.example.org}
    - {name: eu-1, region: eu, address: \"eu.example.org:8082\"}
    - {name: EU, region: eu, address: \"http://eu:8082\"}
";
    let problems = Gateway::read(yaml).expect_err("cannot work").problems;
    for part in [
        "region: `Europe West` is not a name",
        "peers.ca: is empty",
        "peers.push: is longer than peers.beat",
        "peers.gone: is not longer than peers.beat",
        "peers.gateways[0].address: `eu.example.org` is not an address",
        "peers.gateways[1]: eu/eu-1 is peers.gateways[0] already",
        "peers.gateways[2].name: `EU` is not a name",
        "peers.gateways[2].address: `http://eu:8082` is not an address",
    ] {
        assert!(
            problems.iter().any(|p| p.text.contains(part)),
            "{part} is missing in {problems:#?}"
        );
    }
}

// A topology is a name, or a name with its bound. Without one, the published bound applies. The
// printed form reads back as the same.
#[test]
fn topology_forms() {
    use meridian_routing::Topology as Machine;
    let peers = "
region: us
peers: {ca: ca.crt, certificate: a.crt, key: a.key, continent: america, tau: 3, stale: 1s, gateways: [
  {name: eu-1, region: eu, address: \"eu.example.org:8082\"}]}
";
    let read = |topology: &str| {
        let config = Gateway::read(&format!("version: 1\ntopology: {topology}\n{peers}"));
        let config = config.expect("is valid");
        assert_eq!(Gateway::read(&config.print().expect("prints")).expect("reads back"), config);
        let routing = config.routing().expect("resolves");
        assert_eq!((routing.peering.tau, routing.peering.stale.as_millis()), (3, 1000));
        routing.topology
    };
    assert_eq!(read("two_layer"), Machine::TwoLayer);
    assert_eq!(read("region_local"), Machine::Local);
    assert_eq!(read("waterfall"), Machine::Waterfall { above: 0.8 });
    assert_eq!(read("{waterfall: 0.5}"), Machine::Waterfall { above: 0.5 });
    assert_eq!(read("{continent: 1}"), Machine::Continent { above: 1.0 });
}

// An invalid topology is reported with its field, value and remedy.
#[test]
fn topology_problems() {
    let problem = |yaml: &str| {
        Gateway::read(&format!("version: 1\n{yaml}\n")).expect_err("cannot work").to_string()
    };
    for (yaml, part) in [
        ("topology: ring", "topology: `ring` is unknown; use one of two_layer, waterfall"),
        ("topology: central", "list the replicas of all regions in replicas"),
        ("topology: waterfall", "topology: `waterfall` forwards to peers, and none"),
        (
            "topology: {waterfall: 80}",
            "topology.waterfall: 80 is not a utilisation; use a number from 0",
        ),
        (
            "topology: {two_layer: 0.8}",
            "topology.two_layer: takes no value; write `topology: two_layer`",
        ),
        ("topology: {waterfall: 0.8, continent: 0.8}", "takes one name"),
    ] {
        let found = problem(yaml);
        assert!(found.contains(part), "{part} is missing in {found}");
    }
    let peers = "peers: {ca: a, certificate: a, key: a, stale: 50ms, warm: 1GiB, gateways: [
  {name: eu-1, region: eu, address: \"eu.example.org:8082\"}]}";
    let found = problem(&format!("region: us\ntopology: continent\n{peers}"));
    for part in
        ["peers.continent: is missing", "peers.stale: is not longer", "peers.warm: 1073741824"]
    {
        assert!(found.contains(part), "{part} is missing in {found}");
    }
}

// Broken streams are resumed if configured, with a sensible limit on the text.
#[test]
fn resume_form() {
    let read = |resume: &str| Gateway::read(&format!("version: 1\n{resume}\n"));
    assert_eq!(read("").expect("is valid").resume, None);
    let default = read("resume: {}").expect("is valid");
    assert_eq!(default.resume, Some(Resume { text: Size::kib(256) }));
    assert_eq!(Gateway::read(&default.print().expect("prints")).expect("reads back"), default);
    let problem = read("resume: {text: 0B}").expect_err("cannot work").to_string();
    assert!(problem.contains("resume.text: 0 would keep no text"), "{problem}");
    assert!(read("resume: true").is_err());
}
