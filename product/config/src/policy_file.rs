//! A policy alone in a file, as commands take it: the keys `policy` and `admission` of a gateway's
//! configuration, so that a rule that was tried in the simulator is copied into the gateway's file as
//! it is.

use serde::Deserialize;

use super::admission::admission_problem;
use super::policy::resolve;
use super::{AdmissionMode, ConfigError, Format, Policy, file};

/// A policy and its admission mode.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyFile {
    /// The policy.
    pub policy: Policy,
    /// When a replica may receive another request; the policy's own mode by default.
    pub admission: Option<AdmissionMode>,
}

impl PolicyFile {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// Every mistake, with its line, field, value and remedy.
    pub fn read(yaml: &str) -> Result<PolicyFile, ConfigError> {
        file::read(yaml, Format::Policy, PolicyFile::problems)
    }

    /// Every mistake in the policy's name, its parameters and the admission mode.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = resolve(&self.policy).err().unwrap_or_default();
        problems.extend(self.admission.and_then(admission_problem));
        problems
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Mistakes of syntax, of shape and of values come with their lines, all at once.
    #[test]
    fn mistakes_have_lines() {
        let said = |yaml: &str| PolicyFile::read(yaml).expect_err("a mistake").to_string();
        for (yaml, parts) in [
            ("policy: {name: expression", &["line 1"][..]),
            ("", &["the file is empty; the shortest one that works is\npolicy: meridian"]),
            ("policy: meridain", &["policy: `meridain` is unknown; did you mean", "(line 1)"]),
            ("admission: {outstanding: 9}", &["policy: is missing"]),
            (
                "policy: random\nadmision: blind\n",
                &["admision: unknown field", "did you mean `admission`", "(line 2)"],
            ),
            (
                "policy: random\nadmission: {outstanding: -1}\n",
                &["admission.outstanding: `-1` is below 0", "(line 2)"],
            ),
            (
                "policy: {name: expression, score: running = 2}\nadmission: {outstanding: 0}\n",
                &[
                    "policy.score: character 9",
                    "`==`",
                    "admission.outstanding: 0 would",
                    "(line 2)",
                ],
            ),
        ] {
            for part in parts {
                assert!(said(yaml).contains(part), "{part}: {}", said(yaml));
            }
        }
        assert_eq!(PolicyFile::read("policy: random").expect("good").admission, None);
    }
}
