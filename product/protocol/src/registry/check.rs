//! Checks records; every problem is reported with its field, the value and the remedy.

use super::{Region, Replica};
use crate::address::base_url;
use crate::admin::{from_problems, pool_problems};

/// Longest name of a label or model, and of a label's value.
const MOST_TEXT: usize = 256;

impl Replica {
    /// Every problem of the record.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        if let Err(problem) = base_url(&self.spec.url) {
            found.push(format!("spec.url: {problem}"));
        }
        found.extend(from_problems(&self.spec.from).map(|problem| format!("spec.{problem}")));
        let pool = pool_problems(&self.spec).into_iter();
        found.extend(pool.map(|problem| format!("spec.{problem}")));
        if self.spec.weight == 0 {
            found.push("spec.weight: 0 would never get a request; use 1 or more".to_owned());
        }
        // The record itself has the region and the labels; they may not be given twice.
        if self.spec.region.is_some() || !self.spec.labels.is_empty() {
            let remedy = "move them next to spec";
            found.push(format!("spec: has a region or labels; {remedy}"));
        }
        if self.spec.slots == Some(0) {
            found.push(
                "spec.slots: 0 would accept no request; use 1 or more, or remove it".to_owned(),
            );
        }
        if self.spec.kv_tokens == Some(0) {
            let remedy = "use its size in tokens, or remove it";
            found.push(format!("spec.kv_tokens: 0 would cache nothing; {remedy}"));
        }
        found
    }
}

impl Region {
    /// Every problem of the record, except those of its policy and the names in it.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (to, ms) in &self.rtt_ms {
            if !(ms.is_finite() && (0.0..=60_000.0).contains(ms)) {
                let remedy = "use milliseconds from 0 to 60000";
                found.push(format!("rtt_ms.{to}: {ms} is not a round-trip time; {remedy}"));
            }
        }
        for (name, value) in &self.labels {
            if name.is_empty() || name.len() > MOST_TEXT || value.len() > MOST_TEXT {
                let shown: String = name.chars().take(40).collect();
                found.push(format!(
                    "labels.{shown}: the name or value is empty or longer than {MOST_TEXT} bytes; use 1 to {MOST_TEXT} bytes"
                ));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A role with a contradiction is refused where the record is written: a gateway would only log
    // it.
    #[test]
    fn roles_are_checked() {
        let problems = |spec: &str| {
            let record = format!(r#"{{"region":"eu","spec":{spec}}}"#);
            serde_json::from_str::<Replica>(&record).unwrap().problems()
        };
        let found = problems(r#"{"url":"http://a:1","transfer":"nixl"}"#);
        assert!(
            found[0].starts_with("spec.transfer: `nixl` is for replicas that share"),
            "{found:?}"
        );
        let found = problems(r#"{"url":"http://a:1","role":"prefill","bootstrap":"b"}"#);
        assert!(found[0].starts_with("spec.bootstrap: `b` is not a host with a port"), "{found:?}");
        assert!(problems(r#"{"url":"http://a:1","role":"decode","transfer":"nixl"}"#).is_empty());
    }
}
