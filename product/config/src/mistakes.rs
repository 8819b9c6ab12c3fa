//! Values that can only be a mistake: each is refused, with its field and the remedy. And those that are
//! probably one.

#![allow(clippy::unwrap_used)]

use crate::{Control, Gateway, replica_list};

const KEY: &str = "sha256:0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";
/// SHA-256 of nothing, and of a newline.
const OF_NOTHING: &str = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const OF_NEWLINE: &str = "sha256:01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b";

fn gateway(yaml: &str) -> Result<Gateway, String> {
    Gateway::read(&format!("version: 1\n{yaml}\n")).map_err(|error| error.to_string())
}

fn refused(cases: &[(&str, &str)]) {
    for (yaml, says) in cases {
        let yaml = yaml.replace("KEY", KEY);
        let error = gateway(&yaml).expect_err(&yaml);
        assert!(error.contains(says), "{yaml}: {says} is missing in {error}");
    }
}

// Defect impossible-values: a tenant with an empty list of keys is refused, as each of its clients would get a 401.
#[test]
fn tenants_without_keys() {
    refused(&[
        (
            "tenants: [{name: a, keys: []}]",
            "tenants[0].keys: is empty, so each request of this tenant gets a 401",
        ),
        ("tenants: [{name: a, keys: [KEY]}, {name: b, keys: []}]", "tenants[1].keys: is empty"),
        ("tenants: [{name: a}]", "tenants: none has keys, so every client gets a 401"),
        (
            "tenants: [{name: a, keys: [KEY]}]\nadmin_access: {tokens: [KEY]}",
            "admin_access.tokens[0]: is also a key of the tenant a",
        ),
        ("admin_access: {tokens: [KEY, KEY]}", "admin_access.tokens[1]: `sha256:0a0a"),
    ]);
    for hash in [OF_NOTHING, OF_NEWLINE] {
        let error = gateway(&format!("tenants: [{{name: a, keys: ['{hash}']}}]")).unwrap_err();
        assert!(error.contains("tenants[0].keys: one is the hash of an empty key"), "{error}");
    }
    // A tenant that is shut out, one whose clients send tokens, and one that comes by other gateways.
    for fine in [
        "tenants: [{name: a, keys: [KEY]}, {name: b}]",
        "tenants: [{name: a}]\noidc: [{issuer: 'https://i', audience: [m]}]",
        "tenants: [{name: a}]\npeers: {ca: a, certificate: b, key: c}",
    ] {
        let config = gateway(&fine.replace("KEY", KEY)).unwrap();
        assert_eq!(
            gateway(config.print().unwrap().trim_start_matches("version: 1\n")).unwrap(),
            config
        );
    }
}

// Defect impossible-values: one port for two listeners, and a replica at the gateway's own address, are refused.
#[test]
fn own_addresses() {
    let peers = "peers: {ca: a, certificate: b, key: c, listen: LISTEN, gateways: [{name: eu-1, region: eu, address: 'PEER'}]}";
    let peers = |listen: &str, peer: &str| peers.replace("LISTEN", listen).replace("PEER", peer);
    let (twice, own) =
        (peers("'127.0.0.1:8081'", "eu:1"), peers("'0.0.0.0:8082'", "127.0.0.1:8082"));
    refused(&[
        (
            "listen: 0.0.0.0:8081",
            "admin: 127.0.0.1:8081 is the address of `listen`; use another port",
        ),
        ("listen: '[::]:8081'", "admin: 127.0.0.1:8081 is the address of `listen`"),
        (&twice, "peers.listen: 127.0.0.1:8081 is the address of `admin`"),
        (&own, "peers.gateways[0].address: `127.0.0.1:8082` is this gateway's own `peers.listen`"),
        (
            "replicas: [{url: 'http://127.0.0.1:8080'}]",
            "replicas[0].url: `127.0.0.1:8080` is this gateway's own `listen`; write the address of the engine",
        ),
        (
            "replicas: [{url: 'http://localhost:8081/'}]",
            "replicas[0].url: `localhost:8081` is this gateway's own `admin`",
        ),
        (
            "listen: 0.0.0.0:80\nreplicas: [{url: 'http://127.0.0.1'}]",
            "is this gateway's own `listen`",
        ),
        (
            "control: {url: 'http://127.0.0.1:8081', name: us-1}",
            "control.url: `127.0.0.1:8081` is this gateway's own `admin`",
        ),
    ]);
    for fine in [
        "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0",
        "listen: 10.0.0.1:8081",
        "listen: '[::1]:8081'",
        "replicas: [{url: 'http://10.0.0.7:8080'}]",
    ] {
        assert!(gateway(fine).is_ok(), "{fine}: {:?}", gateway(fine));
    }
    let both = "version: 1\nstore: a\nadmin: 127.0.0.1:5353\ndns: {listen: ['0.0.0.0:5353'], zone: a.b, nameservers: {}}\n";
    let error = Control::read(both).unwrap_err().to_string();
    assert!(error.contains("dns.listen[0]: 0.0.0.0:5353 is the address of `admin`"), "{error}");
}

// Defect impossible-values: an address, a name or a place that is listed twice is refused, however it is written.
#[test]
fn entries_are_listed_once() {
    let rule = "tenants: [{name: acme, keys: [KEY]}]\nresidency: {rules: [{name: a, RULE}]}";
    let rule = |text: &str| rule.replace("RULE", text);
    refused(&[
        (
            "replicas: [{url: 'http://a'}, {url: 'http://A:80/'}]",
            "replicas[1].url: `http://A:80/` is also replicas[0]",
        ),
        (
            "replicas: [{url: 'http://a:1'}, {url: 'https://a:1'}]",
            "replicas[1].url: `https://a:1` is also replicas[0]",
        ),
        (
            "replicas: [{url: 'http://a:1', models: [m, m]}]",
            "replicas[0].models[1]: `m` is there twice; remove one",
        ),
        ("paths: [/a, /a]", "paths[1]: `/a` is there twice; remove one"),
        ("keys: {headers: [x-a, X-A]}", "keys.headers[1]: `x-a` is there twice"),
        (
            "cors: {origins: ['https://a', 'https://a']}",
            "cors.origins[1]: `https://a` is there twice",
        ),
        ("admin_access: {hosts: [a.b, a.b]}", "admin_access.hosts[1]: `a.b` is there twice"),
        (
            "peers: {ca: a, certificate: b, key: c, accept: [eu/a, eu/a]}",
            "peers.accept[1]: `eu/a` is there twice",
        ),
        (
            "oidc: [{issuer: 'https://i', audience: [m, m], unknown_tenants: allow}]",
            "oidc[0].audience[1]: `m` is there twice",
        ),
        (
            &rule("tenants: [acme, acme], run_in: [eu]"),
            "residency.rules[0].tenants[1]: `acme` is there twice",
        ),
        (
            &rule("from: [eu], run_in: [eu, eu]"),
            "residency.rules[0].run_in[1]: `eu` is there twice",
        ),
    ]);
    let error = replica_list("[{url: 'http://a'}, {url: 'http://a:80'}]").unwrap_err().to_string();
    assert!(error.contains("[1].url: `http://a:80` is also [0]"), "{error}");
    let etcd = "version: 1\netcd: {endpoints: ['http://a:1', 'http://A:1']}\n";
    let error = Control::read(etcd).unwrap_err().to_string();
    assert!(error.contains("etcd.endpoints[1]: `http://A:1` is there twice"), "{error}");
}

// Defect impossible-values: a name with `*` is refused, as it is compared as it is and would match nothing.
#[test]
fn names_are_no_patterns() {
    refused(&[
        ("paths: ['/v1/*']", "paths[0]: `/v1/*` has a `*`, and names are compared as they are"),
        ("models: {'gpt-*': {fallbacks: [a]}}", "models.gpt-*: `gpt-*` has a `*`"),
        ("models: {gpt: {alias: 'llama-*'}}", "models.gpt.alias: `llama-*` has a `*`"),
        ("models: {gpt: {fallbacks: ['*']}}", "models.gpt.fallbacks[0]: `*` has a `*`"),
        (
            "replicas: [{url: 'http://a:1', models: ['openai/*']}]",
            "replicas[0].models[0]: `openai/*` has a `*`",
        ),
        (
            "replicas: [{url: 'http://a:1', models: ['']}]",
            "replicas[0].models[0]: `` is not a model's name",
        ),
        (
            "oidc: [{issuer: 'https://i', audience: ['*'], unknown_tenants: allow}]",
            "oidc[0].audience: `*` has a `*`",
        ),
        (
            "residency: {rules: [{name: a, models: ['llama*'], run_in: [eu]}]}",
            "residency.rules[0].models[0]: `llama*` has a `*`",
        ),
        (
            "residency: {rules: [{name: a, from: [eu], run_in: ['*']}]}",
            "residency.rules[0].run_in: `*` is not a place",
        ),
    ]);
}

// Defect impossible-values: a number that stops all requests, or never has an effect, is refused.
#[test]
fn numbers() {
    refused(&[
        ("replicas: [{url: 'http://a:1', slots: 0}]", "replicas[0].slots: 0 would run no request"),
        (
            "replicas: [{url: 'http://a:1', kv_tokens: 0}]",
            "replicas[0].kv_tokens: 0 tokens hold no prompt",
        ),
        ("discovery: [{dns: 'a:1', slots: 0}]", "discovery[0].slots: 0 would run no request"),
        (
            "discovery: [{dns: 'a:1', server: '127.0.0.1:0'}]",
            "discovery[0].server: 0 is not a port",
        ),
        ("discovery: [{file: ''}]", "discovery[0].file: is not a file name"),
        ("attempts: 1000", "attempts: 1000 is too large; use at most 100"),
        ("limits: {bodies: 1MiB}", "limits.bodies: 1048576 bytes is less than limits.body"),
        (
            "held: {max_per_tenant: 0}",
            "held.max_per_tenant: 0 would queue no request of any tenant",
        ),
        ("probe: {busy: 5s}", "probe.stale: is shorter than probe.busy"),
        ("timeouts: {idle: 200y}", "timeouts.idle: `200y` is too long; use at most 100y"),
        (
            "models: {a: {fallbacks: [b], fallback_after: 20m}}",
            "models.a.fallback_after: is not shorter than timeouts.first_byte",
        ),
        (
            "models: {gpt: {alias: llama}}\nreplicas: [{url: 'http://a:1', models: [gpt]}]",
            "replicas[0].models[0]: requests for `gpt` go to `llama`",
        ),
        (
            "peers: {ca: a, certificate: b, key: c, continent: ' '}",
            "peers.continent: it or that of a gateway is empty",
        ),
    ]);
    assert!(gateway("held: {max: 0, max_per_tenant: 0}").is_ok());
    let dns = "version: 1\nstore: a\ndns: {listen: ['127.0.0.1:5353'], zone: a.b, nameservers: {}, clients: {eu: []}}\n";
    let error = Control::read(dns).unwrap_err().to_string();
    assert!(error.contains("dns.clients.eu: is empty"), "{error}");
}

// Settings that work and are probably a mistake are reported, and accepted.
#[test]
fn hints() {
    for (yaml, says) in [
        ("held: {max_wait: 20m}", "held.max_wait: 20m is longer than timeouts.first_byte, 10m"),
        ("timeouts: {idle: 2s}", "timeouts.down: 3s is longer than timeouts.idle, 2s"),
        ("probe: {busy: 2s, idle: 1s}", "probe.busy: 2s is longer than probe.idle, 1s"),
        (
            "isolation: tenant\nkeys: {tenant_header: ''}",
            "isolation: `tenant` separates no requests",
        ),
        (
            "models: {a: {limits: {requests: 9000}}}",
            "models.a.limits.requests: 9000 is more than limits.requests, 8192",
        ),
        ("tenants: [{name: a}]\npeers: {ca: a, certificate: b, key: c}", "tenants: none has keys"),
        ("probe: {idle: 2h}", "probe.idle: 2h is an unusual interval of probes; use 10ms to 1m"),
        ("probe: {busy: 1ns}", "probe.busy: 1ns is an unusual interval of probes"),
        ("policy: chwbl\nshadow: chwbl", "shadow: is the policy in force"),
        (
            "tenants: [{name: a, keys: ['KEY']}]",
            "tenants: a key of a is the hash of an example; print that of a real key",
        ),
    ] {
        let found = gateway(&yaml.replace("KEY", KEY)).unwrap().hints();
        assert!(matches!(found.as_slice(), [one] if one.starts_with(says)), "{yaml}: {found:?}");
    }
    assert_eq!(gateway("").unwrap().hints(), Vec::<String>::new());
}

// Defect impossible-values: a residency rule for a place where no replica stands is reported by the check.
#[test]
fn places_of_rules() {
    let places = |more: &str, rule: &str| {
        let yaml = format!(
            "region: eu\n{more}\nresidency: {{labels: {{eu: {{zone: a}}}}, rules: [{{name: r, {rule}}}]}}"
        );
        gateway(&yaml).unwrap().unknown_places()
    };
    let none = Vec::<String>::new();
    assert_eq!(places("", "models: [m], run_in: [eu, zone=a]"), none);
    let replica = "replicas: [{url: 'http://a:1', region: us, labels: {rack: b}}]";
    assert_eq!(places(replica, "models: [m], from: [eu], run_in: [us, rack=b]"), none);
    let found = places("", "models: [m], run_in: [ue]");
    assert_eq!(
        found,
        [
            "residency.rules[0].run_in: no replica stands in `ue`; correct the name, or give replicas that region or label"
        ]
    );
    let found = places("", "from: [us], run_in: [eu]");
    assert!(
        found[0].starts_with("residency.rules[0].from: no gateway of `us` is known here"),
        "{found:?}"
    );
    // Replicas may come from elsewhere.
    assert_eq!(places("discovery: [{file: a}]", "models: [m], run_in: [ue]"), none);
    assert_eq!(
        places("control: {url: 'http://c:1', name: eu-1}", "models: [m], run_in: [ue]"),
        none
    );
}
