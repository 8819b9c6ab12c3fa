//! The section `models`: other names for models, and the models that take their place.
//!
//! A gateway routes by the names that engines have. Other programs let names of clients stand for them,
//! also in their fallbacks, so these are replaced once all names are known.

use std::collections::{BTreeMap, BTreeSet};

use super::super::note::Found;
use super::super::value::{self, heading, line};

/// Most fallbacks of a model that a gateway tries.
const MOST_FALLBACKS: usize = 8;

/// A setting that is not converted, why, and the remedy.
type Unconverted = (Found, String, String);

#[derive(Default)]
pub(crate) struct DraftModels {
    /// The names that engines have.
    served: BTreeSet<String>,
    /// The engines serve more models than the file names.
    serves_any: bool,
    /// Names of clients, with what they stand for.
    aliases: BTreeMap<String, (String, Found)>,
    /// Names with more than one meaning.
    unclear: BTreeSet<String>,
    /// The models to try in place of one.
    fallbacks: BTreeMap<String, (Vec<String>, Found)>,
    /// The models to try in place of each other one.
    usual: Option<(Vec<String>, Found)>,
}

impl DraftModels {
    /// An engine serves a model; clients call it `name`.
    pub(crate) fn serves(&mut self, name: &str, served: &str, from: &Found) {
        self.served.insert(served.to_owned());
        self.stands_for(name, served, from);
    }

    /// The engines serve models that the file does not name.
    pub(crate) fn serves_any(&mut self) {
        self.serves_any = true;
    }

    fn is_served(&self, name: &str) -> bool {
        self.serves_any || self.served.contains(name)
    }

    /// A name of clients stands for another name. The first meaning counts.
    pub(crate) fn stands_for(&mut self, name: &str, other: &str, from: &Found) {
        if name.is_empty() || other.is_empty() {
            return;
        }
        let known = self.aliases.entry(name.to_owned());
        let (meaning, _) = known.or_insert_with(|| (other.to_owned(), from.clone()));
        if meaning != other {
            self.unclear.insert(name.to_owned());
        }
    }

    /// The models to try when a request for `name` cannot be served.
    pub(crate) fn falls_back(&mut self, name: &str, others: Vec<String>, from: &Found) {
        self.fallbacks.entry(name.to_owned()).or_insert_with(|| (others, from.clone()));
    }

    /// The models to try when a request for any other model cannot be served.
    pub(crate) fn all_fall_back(&mut self, others: Vec<String>, from: &Found) {
        self.usual.get_or_insert_with(|| (others, from.clone()));
    }

    /// The name that engines have for a name of clients.
    fn resolved(&self, name: &str) -> String {
        let mut name = name;
        // More steps than names are a circle.
        for _ in 0..=self.aliases.len() {
            match self.aliases.get(name) {
                Some((other, _)) if other != name => name = other,
                _ => break,
            }
        }
        name.to_owned()
    }

    /// Replaces the names of clients. Returns what cannot be converted.
    pub(super) fn settle(&mut self) -> Vec<Unconverted> {
        let mut problems = Vec::new();
        let unclear = std::mem::take(&mut self.unclear);
        let all = self.aliases.clone();
        self.aliases.clear();
        let of = DraftModels { aliases: all.clone(), ..DraftModels::default() };
        for (name, (_, from)) in &all {
            let target = of.resolved(name);
            let is_circle = all.get(&target).is_some_and(|(other, _)| *other != target);
            if *name == target && !is_circle {
                continue;
            }
            if !is_model(name) || !is_model(&target) {
                continue;
            }
            if is_circle || unclear.contains(name) || self.served.contains(name) {
                let why = format!("`{name}` stands for several models here");
                let remedy =
                    "give each a name of its own, and write it as models.NAME.alias".to_owned();
                problems.push((from.clone(), why, remedy));
            } else if self.is_served(&target) {
                self.aliases.insert(name.clone(), (target, from.clone()));
            } else {
                problems.push(elsewhere(from, &target));
            }
        }
        let mut fallbacks = BTreeMap::new();
        for (name, (others, from)) in std::mem::take(&mut self.fallbacks) {
            fallbacks.entry(of.resolved(&name)).or_insert((others, from));
        }
        if let Some((others, from)) = self.usual.take() {
            for served in &self.served {
                fallbacks.entry(served.clone()).or_insert((others.clone(), from.clone()));
            }
        }
        for (name, (others, from)) in fallbacks {
            let mut kept: Vec<String> = Vec::new();
            for other in others.iter().map(|other| of.resolved(other)) {
                if is_model(&other) && !self.is_served(&other) {
                    problems.push(elsewhere(&from, &other));
                } else if other != name && !kept.contains(&other) && !other.is_empty() {
                    kept.push(other);
                }
            }
            if is_model(&name) && !self.is_served(&name) {
                problems.push(elsewhere(&from, &name));
                continue;
            }
            if kept.len() > MOST_FALLBACKS {
                let why = format!(
                    "a model has at most {MOST_FALLBACKS} fallbacks; the others are left out"
                );
                problems.push((from.clone(), why, "choose the ones to keep".to_owned()));
                kept.truncate(MOST_FALLBACKS);
            }
            if kept.iter().chain([&name]).any(|name| !is_model(name)) {
                let why = "a pattern stands for models";
                let remedy = "write the models to try as models.NAME.fallbacks, by their names";
                problems.push((from, why.to_owned(), remedy.to_owned()));
            } else if !kept.is_empty() {
                self.fallbacks.insert(name, (kept, from));
            }
        }
        problems
    }

    /// Writes the section.
    pub(super) fn write(&self, yaml: &mut String) {
        heading(yaml, "models:", self.aliases.is_empty() && self.fallbacks.is_empty());
        for (name, (target, from)) in &self.aliases {
            let (name, target) = (value::quoted(name), value::quoted(target));
            line(yaml, &format!("  {name}: {{alias: {target}}}"), Some(from));
        }
        for (name, (others, from)) in &self.fallbacks {
            let (name, others) =
                (value::quoted(name), value::list(others.iter().map(String::as_str)));
            line(yaml, &format!("  {name}: {{fallbacks: {others}}}"), Some(from));
        }
    }
}

/// The problem of a model that the imported replicas do not serve.
fn elsewhere(from: &Found, model: &str) -> Unconverted {
    let why = format!("no imported replica serves `{model}`");
    let remedy = "keep LiteLLM in front for it, or add a replica and write it under `models`";
    (from.clone(), why, remedy.to_owned())
}

/// Whether a gateway may have a model of this name.
fn is_model(name: &str) -> bool {
    let is_plain = !name.contains('*') && !name.chars().any(char::is_control);
    is_plain && name.trim() == name && (1..=256).contains(&name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Found {
        Found::new("fallbacks", "", "")
    }

    // Defect import: aliases and fallbacks are converted, with the names that engines have in place of those of clients.
    #[test]
    fn names_are_replaced() {
        let mut models = DraftModels::default();
        models.serves("fast", "llama-8b", &found());
        models.serves("large", "llama-70b", &found());
        models.serves("qwen-3", "qwen-3", &found());
        models.stands_for("gpt-4o", "large", &found());
        models.falls_back("gpt-4o", vec!["fast".into(), "large".into(), "fast".into()], &found());
        models.all_fall_back(vec!["qwen-3".into()], &found());
        assert_eq!(models.settle(), []);
        let mut yaml = String::new();
        models.write(&mut yaml);
        let plain: String = yaml
            .lines()
            .map(|line| line.split(" #").next().unwrap_or(line).trim_end().to_owned() + "\n")
            .collect();
        for part in ["fast", "gpt-4o", "large"] {
            assert!(plain.contains(part), "{plain}");
        }
        let aliases: Vec<_> =
            models.aliases.iter().map(|(a, (b, _))| (a.as_str(), b.as_str())).collect();
        assert_eq!(
            aliases,
            [("fast", "llama-8b"), ("gpt-4o", "llama-70b"), ("large", "llama-70b")]
        );
        let fallbacks: Vec<_> =
            models.fallbacks.iter().map(|(a, (b, _))| (a.as_str(), b.join(","))).collect();
        assert_eq!(fallbacks, [("llama-70b", "llama-8b".into()), ("llama-8b", "qwen-3".into())]);
    }

    // A name with two meanings, a circle, and a pattern are not converted.
    #[test]
    fn names_that_are_unclear() {
        let mut models = DraftModels::default();
        models.serves("chat", "a", &found());
        models.serves("chat", "b", &found());
        models.serves("qwen", "qwen", &found());
        models.stands_for("cloud", "gpt-4o", &found());
        models.falls_back("qwen", vec!["gpt-4o".into()], &found());
        models.stands_for("x", "y", &found());
        models.stands_for("y", "x", &found());
        models.falls_back("*", vec!["a".into()], &found());
        let problems = models.settle();
        assert_eq!(problems.len(), 6, "{problems:?}");
        assert!(problems.iter().any(|(_, why, _)| why == "no imported replica serves `gpt-4o`"));
        assert!(!models.aliases.contains_key("chat") && models.fallbacks.is_empty());
    }
}
