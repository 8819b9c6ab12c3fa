//! Keys of a running gateway's file that take effect only at the next start. All others reload.

use serde_json::{Map, Value};

use super::secret::revealed;
use super::{Gateway, Peers};

const ADDRESS: &str = "programs that connect know the address";
const IDENTITY: &str = "peers, certificates and the control plane know the gateway by it";
const CERTIFIED: &str = "connections to peers stay open; the files' contents reload";
const KEPT: &str = "connections to peers stay open as they are";
const FOLLOWED: &str = "the connection stays as it is; the files' contents reload";
const PROTECTS: &str = "a file that lost the section must not open the port";

/// The keys that need a restart, each with the reason. A key stands for all keys below it.
pub const AT_START: &[(&str, &str)] = &[
    ("region", IDENTITY),
    ("listen", ADDRESS),
    ("admin", ADDRESS),
    ("admin_access.tls", PROTECTS),
    ("secret", "all fingerprints are keyed by it"),
    ("threads", "connections stay on the thread that serves them"),
    ("peers.listen", ADDRESS),
    ("peers.secret", KEPT),
    ("peers.name", IDENTITY),
    ("peers.ca", CERTIFIED),
    ("peers.crl", CERTIFIED),
    ("peers.certificate", CERTIFIED),
    ("peers.key", CERTIFIED),
    ("peers.continent", IDENTITY),
    ("peers.gateways", ADDRESS),
    ("peers.siblings", ADDRESS),
    ("peers.push", KEPT),
    ("peers.beat", KEPT),
    ("peers.gone", KEPT),
    ("peers.warm", KEPT),
    ("control", FOLLOWED),
];

impl Gateway {
    /// The configuration that this running one may adopt from its changed `file`, and the changed
    /// keys that have to wait for a restart. Those keep their values, and so do sections that need
    /// one to appear or disappear: `peers`, and `tls`, with which the port's address gets another
    /// scheme.
    #[must_use]
    pub fn adopt(&self, file: &Gateway) -> (Gateway, Vec<String>) {
        let mut adopted = file.clone();
        adopted.region.clone_from(&self.region);
        (adopted.listen, adopted.admin, adopted.threads) = (self.listen, self.admin, self.threads);
        adopted.admin_access.tls.clone_from(&self.admin_access.tls);
        adopted.secret.clone_from(&self.secret);
        adopted.control.clone_from(&self.control);
        if adopted.tls.is_some() != self.tls.is_some() {
            adopted.tls.clone_from(&self.tls);
        }
        match (&mut adopted.peers, &self.peers) {
            (Some(adopted), Some(now)) => {
                let Peers { accept, stale, tau, tau_own, .. } = adopted.clone();
                *adopted = Peers { accept, stale, tau, tau_own, ..now.clone() };
            }
            (adopted, now) => adopted.clone_from(now),
        }
        let waiting = changed_keys(file, &adopted);
        (adopted, waiting)
    }
}

/// The keys in which two configurations differ, `limits.body` for a key of a section. A section
/// that only one of them has is one key.
#[must_use]
pub fn changed_keys(a: &Gateway, b: &Gateway) -> Vec<String> {
    let mut found = Vec::new();
    compare(&fields(a), &fields(b), "", &mut found);
    found
}

fn fields(config: &Gateway) -> Map<String, Value> {
    match revealed(|| serde_json::to_value(config)) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

fn compare(a: &Map<String, Value>, b: &Map<String, Value>, path: &str, found: &mut Vec<String>) {
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        match (a.get(name), b.get(name)) {
            (Some(Value::Object(a)), Some(Value::Object(b))) => compare(a, b, &path, found),
            (a, b) if a != b => found.push(path),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys that the files do not have, since they have certificates.
    const WITH_SECRET: [&str; 2] = ["peers.secret", "peers.name"];

    /// Two files that differ in every key that both have.
    fn both() -> [Gateway; 2] {
        [include_str!("reload/one.yaml"), include_str!("reload/other.yaml")]
            .map(|yaml| Gateway::read(yaml).expect("is valid"))
    }

    // The table is right: of two files that differ in every key, a running gateway adopts all but
    // those of the table.
    #[test]
    fn the_table_is_what_reloads() {
        let [one, other] = both();
        let (adopted, waiting) = one.adopt(&other);
        let table = AT_START.iter().map(|(key, _)| *key).filter(|key| !WITH_SECRET.contains(key));
        let mut table: Vec<&str> = table.collect();
        table.sort_unstable();
        assert_eq!(roots(&waiting, &table), table);
        let mut rest = changed_keys(&one, &other);
        rest.retain(|key| !waiting.contains(key));
        assert_eq!(changed_keys(&one, &adopted), rest);
    }

    /// The table's keys that stand for these keys, which all have one.
    fn roots<'a>(keys: &[String], table: &[&'a str]) -> Vec<&'a str> {
        let root = |key: &String| {
            let is_root = |root: &&&str| {
                key.strip_prefix(**root).is_some_and(|r| r.is_empty() || r.starts_with('.'))
            };
            *table
                .iter()
                .find(is_root)
                .unwrap_or_else(|| panic!("{key} waits and is not in the table"))
        };
        let mut roots: Vec<&str> = keys.iter().map(root).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    // The two files have every key, and differ in each.
    #[test]
    fn the_files_have_every_key() {
        let [one, other] = both();
        let [one, other] = [&one, &other].map(|config| Value::Object(fields(config)));
        let same = same_leaves(&one, &other, "");
        assert_eq!(same, ["version"]);
        // With `peers`, the name is in the certificate.
        let left_out = |path: &str| path == "control.name" || WITH_SECRET.contains(&path);
        for key in super::super::keys().iter().filter(|key| !left_out(&key.path)) {
            let value = key.path.split('.').try_fold(&one, |value, name| value.get(name));
            assert!(value.is_some(), "reload/one.yaml lacks {}", key.path);
        }
    }

    fn same_leaves(a: &Value, b: &Value, path: &str) -> Vec<String> {
        let (Value::Object(a), Value::Object(b)) = (a, b) else {
            return if a == b { vec![path.trim_start_matches('.').to_owned()] } else { Vec::new() };
        };
        assert_eq!(a.keys().collect::<Vec<_>>(), b.keys().collect::<Vec<_>>(), "{path}");
        a.iter().flat_map(|(name, a)| same_leaves(a, &b[name], &format!("{path}.{name}"))).collect()
    }
}
