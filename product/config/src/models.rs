//! Models: other names for them, their limits, and the models that take their place.
//!
//! An alias is for clients alone: everything behind the gateway knows the model that engines serve.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::check::check_keep_alive;
use super::tenants::MOST_A_MINUTE;
use super::twice::exact;
use super::{Gateway, Span};

/// The section, by the name that requests use.
pub type Models = BTreeMap<String, ModelSettings>;

/// Most models: each may become a label of metrics.
const MOST_MODELS: usize = 1024;
/// Longest name, in bytes. It is sent as the value of a header.
const MOST_NAME: usize = 256;
/// Bounds of the time that requests wait for a first replica. A replica takes seconds to start, and a
/// client that waits for an hour has left.
const ZERO_WAIT: [Span; 2] = [Span::secs(1), Span::secs(3600)];
/// Most fallbacks of a model. A request that tries more has waited too long.
const MOST_FALLBACKS: usize = 8;

/// One model, or another name for one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSettings {
    /// The model that engines serve under this name. An alias has no other keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Models to try in this order when the request cannot be served by this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallbacks: Vec<String>,
    /// How long a stream may take to its first token before the next fallback is tried. If absent,
    /// a request that was not refused waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback_after: Option<Span>,
    /// How long a request waits for a replica while none takes requests: set it for a model that is
    /// scaled to zero, longer than a replica takes to start. If absent, `held.max_wait` applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_from_zero: Option<Span>,
    /// As the gateway's `stream_keep_alive`, for streams of this model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream_keep_alive: Option<Span>,
    /// Its limits at this gateway.
    #[serde(default, skip_serializing_if = "ModelLimits::is_empty")]
    pub limits: ModelLimits,
}

/// Limits of a model, for all tenants together. An absent limit means none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelLimits {
    /// Requests in the gateway at once, including queued ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests: Option<usize>,
    /// Tokens of prompts and replies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_minute: Option<u32>,
}

impl ModelLimits {
    /// Whether no limit is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == ModelLimits::default()
    }
}

impl Gateway {
    /// The model that engines serve under a name of clients; none if it is not an alias.
    #[must_use]
    pub fn served(&self, name: &str) -> Option<&str> {
        self.models.get(name)?.alias.as_deref()
    }

    /// The models that engines serve at times, by what this file says: those with settings, the
    /// targets of aliases, fallbacks, and those of residency rules.
    #[must_use]
    pub fn expected_models(&self) -> BTreeSet<String> {
        let mut expected = BTreeSet::new();
        for (name, one) in &self.models {
            expected.insert(one.alias.as_ref().unwrap_or(name).clone());
            expected.extend(one.fallbacks.iter().cloned());
        }
        let ruled = self.residency.rules.iter().flat_map(|rule| &rule.models);
        expected.extend(ruled.cloned());
        expected
    }

    /// The models that are scaled to zero at times.
    pub fn scaled_to_zero(&self) -> impl Iterator<Item = &str> + Clone {
        let models = self.models.iter().filter(|(_, one)| one.scale_from_zero.is_some());
        models.map(|(name, _)| &**name)
    }

    /// The interval of comments to clients that wait for a stream of a model.
    #[must_use]
    pub fn keep_alive_of(&self, model: &str) -> Option<Span> {
        let own = self.models.get(model).and_then(|model| model.stream_keep_alive);
        own.or(self.stream_keep_alive)
    }

    /// The aliases with their models.
    pub fn aliases(&self) -> impl Iterator<Item = (&str, &str)> + Clone {
        self.models.iter().filter_map(|(name, one)| Some((&**name, one.alias.as_deref()?)))
    }
}

/// Checks the section.
pub(super) fn check(models: &Models, check: &mut impl FnMut(bool, String)) {
    check(
        models.len() <= MOST_MODELS,
        format!("models: {} are listed; use at most {MOST_MODELS}", models.len()),
    );
    for (name, settings) in models {
        let at = format!("models.{}", shown(name));
        check(is_name(name), format!("{at}: is not a model's name; {NAME}"));
        exact(&at, name, check);
        match &settings.alias {
            Some(target) => settings.check_alias(&at, name, target, models, check),
            None => settings.check_model(&at, name, models, check),
        }
    }
}

/// The form of a name, as a remedy.
const NAME: &str = "use 1 to 256 printable characters without spaces at the ends";

impl ModelSettings {
    fn check_alias(
        &self,
        at: &str,
        name: &str,
        target: &str,
        models: &Models,
        check: &mut impl FnMut(bool, String),
    ) {
        check(
            *self == ModelSettings { alias: self.alias.clone(), ..ModelSettings::default() },
            format!(
                "{at}: is an alias and has other keys; move them to `models.{}`",
                shown(target)
            ),
        );
        let at = format!("{at}.alias");
        exact(&at, target, check);
        if !is_name(target) {
            return check(
                false,
                format!("{at}: `{}` is not a model's name; {NAME}", shown(target)),
            );
        }
        let next = models.get(target).and_then(|settings| settings.alias.as_deref());
        match next {
            _ if target == name => check(
                false,
                format!(
                    "{at}: `{target}` is an alias of itself; name the model that engines serve"
                ),
            ),
            Some(next) if models.get(next).is_some_and(|end| end.alias.is_some()) => check(
                false,
                format!("{at}: `{target}` is an alias too; name the model that engines serve"),
            ),
            Some(next) => {
                check(false, format!("{at}: `{target}` is an alias too; write `{}`", shown(next)))
            }
            None => {}
        }
    }

    fn check_model(
        &self,
        at: &str,
        name: &str,
        models: &Models,
        check: &mut impl FnMut(bool, String),
    ) {
        let ModelSettings {
            alias: _,
            fallbacks,
            fallback_after,
            scale_from_zero,
            stream_keep_alive,
            limits,
        } = self;
        check(
            fallbacks.len() <= MOST_FALLBACKS,
            format!("{at}.fallbacks: {} are listed; use at most {MOST_FALLBACKS}", fallbacks.len()),
        );
        for (i, other) in fallbacks.iter().enumerate() {
            let at = format!("{at}.fallbacks[{i}]");
            exact(&at, other, check);
            let target = models.get(other).and_then(|settings| settings.alias.as_deref());
            if !is_name(other) {
                check(false, format!("{at}: `{}` is not a model's name; {NAME}", shown(other)));
            } else if other == name {
                check(false, format!("{at}: `{other}` is the model itself; remove it"));
            } else if fallbacks[..i].contains(other) {
                check(false, format!("{at}: `{other}` is listed twice; remove one"));
            } else if let Some(target) = target {
                check(false, format!("{at}: `{other}` is an alias; write `{}`", shown(target)));
            }
        }
        if let Some(after) = fallback_after {
            check(
                !after.0.is_zero(),
                format!(
                    "{at}.fallback_after: 0 would give up every request at once; use a time above 0"
                ),
            );
            check(
                !fallbacks.is_empty(),
                format!(
                    "{at}.fallback_after: has no effect without `fallbacks`; list one, or remove it"
                ),
            );
        }
        if let Some(wait) = scale_from_zero {
            let [least, most] = ZERO_WAIT;
            check(
                (least..=most).contains(wait),
                format!(
                    "{at}.scale_from_zero: {} ms is out of range; use 1s to 1h, longer than a replica takes to start",
                    wait.0.as_millis()
                ),
            );
        }
        if let Some(every) = stream_keep_alive {
            check_keep_alive(&format!("{at}.stream_keep_alive"), *every, check);
        }
        limits.check(&format!("{at}.limits"), check);
    }
}

impl ModelLimits {
    fn check(&self, at: &str, check: &mut impl FnMut(bool, String)) {
        let remedy = "or remove the line for no limit";
        check(
            self.requests != Some(0),
            format!("{at}.requests: 0 would refuse every request; use 1 or more, {remedy}"),
        );
        let Some(tokens) = self.tokens_per_minute else { return };
        check(
            (1..=MOST_A_MINUTE).contains(&tokens),
            format!(
                "{at}.tokens_per_minute: {tokens} is out of range; use 1 to {MOST_A_MINUTE}, {remedy}"
            ),
        );
    }
}

fn is_name(name: &str) -> bool {
    let fits = (1..=MOST_NAME).contains(&name.len()) && name.trim() == name;
    fits && !name.chars().any(char::is_control)
}

/// A name in a message, which may be no name at all.
fn shown(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConfigError;

    fn read(models: &str) -> Result<Gateway, ConfigError> {
        Gateway::read(&format!("version: 1\nmodels:\n{models}"))
    }

    // Aliases, fallbacks and limits are read and printed back.
    #[test]
    fn reads_back() {
        let read = read(concat!(
            "  gpt-4o: {alias: meta/llama-3.3-70b}\n",
            "  meta/llama-3.3-70b:\n",
            "    fallbacks: [llama-3.1-8b]\n",
            "    fallback_after: 5s\n",
            "    scale_from_zero: 10m\n",
            "    stream_keep_alive: 20s\n",
            "    limits: {requests: 200, tokens_per_minute: 1000000}\n",
            "  llama-3.1-8b: {fallbacks: [meta/llama-3.3-70b]}\n",
        ))
        .expect("is valid");
        let model = &read.models["meta/llama-3.3-70b"];
        assert_eq!(read.models["gpt-4o"].alias.as_deref(), Some("meta/llama-3.3-70b"));
        assert_eq!((model.fallbacks.len(), model.fallback_after), (1, Some(Span::secs(5))));
        assert_eq!(model.scale_from_zero, Some(Span::secs(600)));
        assert!(read.scaled_to_zero().eq(["meta/llama-3.3-70b"]));
        let every = |model| read.keep_alive_of(model);
        assert_eq!((every("meta/llama-3.3-70b"), every("other")), (Some(Span::secs(20)), None));
        assert_eq!(
            model.limits,
            ModelLimits { requests: Some(200), tokens_per_minute: Some(1_000_000) }
        );
        assert_eq!(Gateway::read(&read.print().expect("prints")).expect("reads back"), read);
    }

    // Each mistake is reported with its field, its line and the remedy.
    #[test]
    fn mistakes() {
        for (models, problem) in [
            (
                "  a: {alias: a}\n",
                "models.a.alias: `a` is an alias of itself; name the model that engines serve (line 3)",
            ),
            (
                "  a: {alias: b}\n  b: {alias: c.1}\n",
                "models.a.alias: `b` is an alias too; write `c.1` (line 3)",
            ),
            ("  a: {alias: ''}\n", "models.a.alias: `` is not a model's name"),
            ("  ' a': {}\n", "models. a: is not a model's name"),
            (
                "  a.1/b:\n    alias: c\n    limits: {requests: 1}\n",
                "models.a.1/b: is an alias and has other keys; move them to `models.c` (line 3)",
            ),
            (
                "  a:\n    fallbacks: [a]\n",
                "models.a.fallbacks[0]: `a` is the model itself; remove it (line 4)",
            ),
            (
                "  a:\n    fallbacks: [b, b]\n",
                "models.a.fallbacks[1]: `b` is listed twice; remove one (line 4)",
            ),
            (
                "  a.5: {fallbacks: [b]}\n  b: {alias: c}\n",
                "models.a.5.fallbacks[0]: `b` is an alias; write `c` (line 3)",
            ),
            (
                "  a: {fallbacks: [b, c, d, e, f, g, h, i, j]}\n",
                "models.a.fallbacks: 9 are listed; use at most 8 (line 3)",
            ),
            (
                "  a: {fallback_after: 5s}\n",
                "models.a.fallback_after: has no effect without `fallbacks`",
            ),
            (
                "  a: {fallbacks: [b], fallback_after: 0s}\n",
                "models.a.fallback_after: 0 would give up",
            ),
            (
                "  a:\n    limits:\n      requests: 0\n",
                "models.a.limits.requests: 0 would refuse every request; use 1 or more, or remove the line for no limit (line 5)",
            ),
            (
                "  a: {limits: {tokens_per_minute: 0}}\n",
                "models.a.limits.tokens_per_minute: 0 is out of range",
            ),
            ("  a: {fallback: [b]}\n", "did you mean `fallbacks`"),
            (
                "  a: {scale_from_zero: 500ms}\n",
                "models.a.scale_from_zero: 500 ms is out of range; use 1s to 1h, longer than a replica takes to start (line 3)",
            ),
            (
                "  a: {scale_from_zero: 61m}\n",
                "models.a.scale_from_zero: 3660000 ms is out of range",
            ),
            (
                "  a: {stream_keep_alive: 10ms}\n",
                "models.a.stream_keep_alive: 10 ms would send more comments than content",
            ),
            (
                "  a: {alias: b, scale_from_zero: 5m}\n",
                "models.a: is an alias and has other keys; move them to `models.b`",
            ),
        ] {
            let error = read(models).expect_err(models).to_string();
            assert!(error.contains(problem), "{models}: {error}");
        }
    }

    // Aliases that name each other in a circle are refused, each with its own message.
    #[test]
    fn circles() {
        let error =
            read("  a: {alias: b}\n  b: {alias: a}\n").expect_err("is a circle").to_string();
        for name in ["a", "b"] {
            let end = "is an alias too; name the model that engines serve";
            assert!(
                error.contains(&format!("models.{name}.alias: ")) && error.contains(end),
                "{error}"
            );
        }
    }

    // A residency rule that names an alias would match nothing.
    #[test]
    fn rules_name_models() {
        let yaml = "version: 1\nmodels: {gpt: {alias: llama}}\nresidency:\n  rules:\n    - {name: here, models: [gpt], run_in: [local]}\n";
        let error = Gateway::read(yaml).expect_err("names an alias").to_string();
        let says = "residency.rules[0].models[0]: `gpt` is an alias; write `llama`";
        assert!(error.starts_with(says), "{error}");
    }
}
