//! The labels of pods that say something about a replica.

use std::collections::{BTreeMap, BTreeSet};

use meridian_base::Role;

/// The keys of the labels to read; an absent one is not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelKeys {
    /// Its value is `prefill`, `decode` or `both`, such as that of `llm-d.ai/role`.
    pub role: Option<String>,
    /// Its value is a pod's rank in a group that serves together, such as that of
    /// `leaderworkerset.sigs.k8s.io/worker-index`. Only rank 0 is a replica.
    pub rank: Option<String>,
    /// Pods with the same value run the same revision, such as that of
    /// `app.kubernetes.io/version`. `pod-template-hash` differs between two Deployments.
    pub revision: Option<String>,
}

/// Labels of one pod.
pub(crate) type Pod = BTreeMap<String, String>;

/// A replica by its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ByLabels {
    pub(crate) role: Option<Role>,
    pub(crate) revision: Option<String>,
}

impl LabelKeys {
    /// Whether any label is read.
    pub(crate) fn are_read(&self) -> bool {
        self.role.is_some() || self.rank.is_some() || self.revision.is_some()
    }

    /// The replica by its pod's labels; `None` if the pod is not one.
    pub(crate) fn read(&self, labels: &Pod, problems: &mut BTreeSet<String>) -> Option<ByLabels> {
        let value = |key: &Option<String>| labels.get(key.as_deref()?).map(String::as_str);
        if value(&self.rank).is_some_and(|rank| rank != "0") {
            return None;
        }
        let role = match value(&self.role) {
            None => None,
            Some(text) => {
                let role = role(text);
                if role.is_none() {
                    problems.insert(format!(
                        "label {}: `{text}` is not a role, so pods with it get no requests; use prefill, decode or both",
                        self.role.as_deref().unwrap_or_default()
                    ));
                }
                Some(role?)
            }
        };
        Some(ByLabels { role, revision: value(&self.revision).map(str::to_owned) })
    }
}

fn role(text: &str) -> Option<Role> {
    match text {
        "prefill" => Some(Role::Prefill),
        "decode" => Some(Role::Decode),
        // llm-d's other word.
        "both" | "prefill-decode" => Some(Role::Both),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Workers of a group are no replicas, and neither are pods with an unknown role, which is a
    // problem. A pod without the labels is a replica.
    #[test]
    fn labels_of_a_pod() {
        let keys = LabelKeys {
            role: Some("role".to_owned()),
            rank: Some("rank".to_owned()),
            revision: Some("hash".to_owned()),
        };
        let read = |labels: &[(&str, &str)]| {
            let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            let mut problems = BTreeSet::new();
            (keys.read(&labels.iter().map(own).collect(), &mut problems), problems.len())
        };
        assert_eq!(read(&[]), (Some(ByLabels::default()), 0));
        let prefill = ByLabels { role: Some(Role::Prefill), revision: Some("7f".to_owned()) };
        assert_eq!(read(&[("role", "prefill"), ("hash", "7f"), ("rank", "0")]), (Some(prefill), 0));
        assert_eq!(read(&[("rank", "1")]), (None, 0));
        assert_eq!(read(&[("role", "encode")]), (None, 1));
    }
}
