//! A policy as commands take it: a name, or a file with a policy and its parameters.
//!
//! The file has the keys `policy` and `admission` of a gateway's configuration, so that a rule that
//! was tried in the simulator is copied into the gateway's file as it is.

use std::path::Path;

use anyhow::{Context, anyhow, ensure};
use meridian_config::{PolicyFile, policies};
use meridian_protocol::policy::Policy;
use meridian_routing::Admission;
use meridian_routing::policy::{Params, Spec};
use meridian_sim::{System, Topology};

/// A policy with its parameters and its admission mode.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Its name in reports: the policy's, or the file's without its ending.
    pub name: String,
    /// As it was given: the policy's name, or the file.
    pub given: String,
    /// The policy.
    pub spec: &'static Spec,
    /// Its parameters.
    pub params: Params,
    /// When a replica may receive another request.
    pub admission: Admission,
    /// The policy and the mode as a configuration has them.
    pub written: PolicyFile,
}

/// Lets configurations name the policies of other routers: here they are what ours is compared
/// with. Whatever resolves a policy calls it first.
pub fn every_policy() {
    policies::install(meridian_rivals::EVERY);
}

impl Rule {
    /// A policy by its name, the default one as `default`, or by a file that ends in `.yaml` or `.yml`.
    ///
    /// # Errors
    /// An unknown name, a file that can't be read, and every mistake in its parameters.
    pub fn given(text: &str) -> anyhow::Result<Rule> {
        every_policy();
        let text = text.trim();
        let is_file = [".yaml", ".yml"].iter().any(|end| text.ends_with(end));
        if is_file {
            let yaml =
                std::fs::read_to_string(text).with_context(|| format!("cannot read {text}"))?;
            return Rule::read(&yaml, text);
        }
        ensure!(
            !text.contains('/'),
            "`{text}` is not a policy; the name of a policy's file ends in .yaml"
        );
        let policy = match text {
            "default" => Policy::default(),
            name => Policy { name: name.to_owned(), ..Policy::default() },
        };
        let name = policy.name.clone();
        Rule::of(PolicyFile { policy, admission: None }, name.clone(), name)
            .map_err(|errors| anyhow!("{}", errors.join("; ")))
    }

    /// The text of a file.
    ///
    /// # Errors
    /// As [`Rule::given`].
    pub fn read(yaml: &str, file: &str) -> anyhow::Result<Rule> {
        every_policy();
        let written = PolicyFile::read(yaml).map_err(|error| anyhow!("{file}: {error}"))?;
        let stem = Path::new(file).file_stem().unwrap_or_default();
        Rule::of(written, stem.to_string_lossy().into_owned(), file.to_owned())
            .map_err(|errors| anyhow!("{file}: {}", errors.join("; ")))
    }

    fn of(written: PolicyFile, name: String, given: String) -> Result<Rule, Vec<String>> {
        let (spec, params) = meridian_config::resolve(&written.policy)?;
        let admission = written.admission.map_or(spec.admission, Admission::from);
        Ok(Rule { name, given, spec, params, admission, written })
    }

    /// A simulated system with this policy and defaults for everything else.
    #[must_use]
    pub fn system(&self, topology: Topology) -> System {
        System {
            name: self.name.clone(),
            params: self.params.clone(),
            admission: self.admission,
            ..System::usual(self.spec, topology)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A name, a file's text, and mistakes with field, place, value and remedy.
    #[test]
    fn names_and_files() {
        let rule = Rule::given("default").unwrap();
        assert_eq!((&*rule.name, &*rule.given), ("meridian", "meridian"));
        let yaml = "policy: {name: expression, score: running}\nadmission: {outstanding: 9}\n";
        let rule = Rule::read(yaml, "rules/mine.yaml").unwrap();
        assert_eq!((&*rule.name, &*rule.given), ("mine", "rules/mine.yaml"));
        assert_eq!(rule.admission, Admission::Outstanding { max: 9 });
        let error = |yaml: &str| format!("{:#}", Rule::read(yaml, "mine.yaml").unwrap_err());
        for (yaml, part) in [
            (
                "policy: meridain",
                "mine.yaml: policy: `meridain` is unknown; did you mean `meridian`?",
            ),
            (
                "policy: {name: expression, score: 2 * runing}",
                "policy.score: character 5: `runing` is unknown; did you mean `running`?",
            ),
            ("policy: {name: expression, score: 5}", "policy.score: 5 is not an expression"),
            ("policy: random\nadmission: {outstanding: 0}", "admission.outstanding: 0 would"),
            ("policy: random\nreplicas: []", "replicas"),
            ("policy: random\nadmission: blnd", "(line 2)"),
        ] {
            assert!(error(yaml).contains(part), "{}", error(yaml));
        }
        let error = Rule::given("there/is/none.yaml").unwrap_err();
        assert!(format!("{error:#}").contains("cannot read there/is/none.yaml"));
    }
}
