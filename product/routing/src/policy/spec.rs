//! A policy's declaration, and the parameters that it takes.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use meridian_base::Duration;

use super::rule::Policy;
use crate::admission::Admission;
use crate::index::IndexSpec;

/// Bound on all prefix indexes, in blocks times targets, if the published system has none: some
/// hundred megabytes, and more than 100 replicas of 40,000 blocks (640,000 tokens) hold.
pub const TOTAL_BLOCKS: usize = 1 << 22;

/// A policy's declaration.
pub struct Spec {
    /// Its name in config, metrics and headers.
    pub name: &'static str,
    /// One line for the CLI's list and the docs.
    pub summary: &'static str,
    /// The source of the rule: paper and section, or project and version.
    pub source: &'static str,
    /// Its parameters, with their published defaults.
    pub params: &'static [Param],
    /// Admission mode it runs with unless the config says otherwise.
    pub admission: Admission,
    /// The prefix index it requires; `None` for policies without one.
    pub index: fn(&Params) -> Option<IndexSpec>,
    /// Bytes of the prompt that [`Request::head`](crate::Request::head) covers; 0 for none.
    pub head_bytes: fn(&Params) -> usize,
    /// Builds the policy. The parameters have been checked against `params`.
    pub build: fn(&Params) -> Box<dyn Policy>,
}

impl core::fmt::Debug for Spec {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Spec").field(&self.name).finish()
    }
}

/// One parameter of a policy.
pub struct Param {
    /// Its key in the config.
    pub name: &'static str,
    /// Its effect, with its unit.
    pub doc: &'static str,
    /// Its published default.
    pub default: Value,
    /// Smallest and largest number allowed.
    pub range: (f64, f64),
    /// Words allowed instead of a number or a text (`off`, `auto`).
    pub words: &'static [&'static str],
    /// Whether it takes a text that passes this check.
    pub check: Option<Check>,
}

/// Finds the first mistake in a text.
pub type Check = fn(&str) -> Result<(), TextError>;

/// A mistake in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextError {
    /// Where it is, from 1.
    pub character: usize,
    /// What is wrong. With the remedy, unless `known` has words to use instead.
    pub message: String,
    /// The wrong word, if there are others to use instead.
    pub word: String,
    /// Those.
    pub known: Vec<&'static str>,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number; whole if the parameter counts something.
    Number(f64),
    /// One of the parameter's words, or the text that is its default.
    Word(&'static str),
    /// A text that passed the parameter's check.
    Text(Arc<str>),
}

/// A policy's parameters, complete: defaults filled in, every value within its range.
#[derive(Clone, Debug)]
pub struct Params(Vec<(&'static str, Value)>);

/// A value for a parameter, as a config gives it.
#[derive(Clone, Debug, PartialEq)]
pub enum Given {
    /// A number.
    Number(f64),
    /// A word.
    Word(String),
}

/// Why given parameters do not fit a policy.
#[derive(Clone, Debug, PartialEq)]
pub enum ParamError {
    /// The policy has no such parameter; carries the name.
    Unknown(String),
    /// The value is not allowed; carries the parameter's name.
    Invalid(&'static str),
    /// The text has a mistake; carries the parameter's name.
    Text(&'static str, TextError),
}

impl Params {
    /// Completes `given` with the defaults of `spec`.
    ///
    /// # Errors
    /// Every unknown name and every value out of range, all at once.
    pub fn complete(
        spec: &'static Spec,
        given: &[(String, Given)],
    ) -> Result<Params, Vec<ParamError>> {
        let Params(mut values) = Params::defaults(spec);
        let mut errors = Vec::new();
        for (name, value) in given {
            match spec.params.iter().position(|p| p.name == name) {
                None => errors.push(ParamError::Unknown(name.clone())),
                Some(i) => match spec.params[i].accept(value) {
                    Ok(v) => values[i].1 = v,
                    Err(error) => errors.push(error),
                },
            }
        }
        if errors.is_empty() { Ok(Params(values)) } else { Err(errors) }
    }

    /// The defaults of `spec`.
    #[must_use]
    pub fn defaults(spec: &'static Spec) -> Params {
        Params(spec.params.iter().map(|p| (p.name, p.default.clone())).collect())
    }

    /// The number under `name`, `None` if it is a word.
    ///
    /// # Panics
    ///
    /// When the policy declared no such parameter.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        match self.value(name) {
            Value::Number(n) => Some(*n),
            Value::Word(_) | Value::Text(_) => None,
        }
    }

    /// The value under `name`.
    ///
    /// # Panics
    ///
    /// When the policy declared no such parameter.
    #[must_use]
    pub fn value(&self, name: &str) -> &Value {
        let found = self.0.iter().find(|(n, _)| *n == name);
        &found.expect("a policy reads only the knobs that it declares").1
    }

    /// The text or the word under `name`, for parameters that take no numbers.
    pub(super) fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Value::Number(_) => "",
            Value::Word(word) => word,
            Value::Text(text) => text,
        }
    }

    /// The number under `name`, for parameters that take no words.
    ///
    /// # Panics
    ///
    /// When the policy declared no such parameter, or it is a word.
    #[must_use]
    pub fn f32(&self, name: &str) -> f32 {
        self.number(name).expect("the parameter takes no words") as f32
    }

    /// The whole number under `name`, for parameters that count something and take no words.
    ///
    /// # Panics
    ///
    /// When the policy declared no such parameter, or it is a word.
    #[must_use]
    pub fn count(&self, name: &str) -> u32 {
        self.number(name).expect("the parameter takes no words") as u32
    }

    /// The time under `name`, given in seconds, for parameters that take no words.
    ///
    /// # Panics
    ///
    /// When the policy declared no such parameter, or it is a word.
    #[must_use]
    pub fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.number(name).expect("the parameter takes no words"))
    }

    /// Whether the value under `name` is `word`.
    ///
    /// # Panics
    ///
    /// When the policy declared no such parameter.
    #[must_use]
    pub fn is(&self, name: &str, word: &str) -> bool {
        matches!(self.value(name), Value::Word(w) if *w == word)
    }

    /// All names and values, in the order declared.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> + '_ {
        self.0.iter().map(|(name, value)| (*name, value))
    }
}

impl Param {
    /// A parameter that takes a number within a range.
    #[must_use]
    pub const fn number(
        name: &'static str,
        default: f64,
        range: (f64, f64),
        doc: &'static str,
    ) -> Param {
        Param::number_or(name, default, range, &[], doc)
    }

    /// A parameter that takes a number within a range or one of `words`; the default is the number.
    #[must_use]
    pub const fn number_or(
        name: &'static str,
        default: f64,
        range: (f64, f64),
        words: &'static [&'static str],
        doc: &'static str,
    ) -> Param {
        Param { name, doc, default: Value::Number(default), range, words, check: None }
    }

    /// A parameter that takes one of `words`; the default is the first, and its range is empty.
    #[must_use]
    pub const fn word(
        name: &'static str,
        words: &'static [&'static str],
        doc: &'static str,
    ) -> Param {
        Param::word_or(name, words, (1.0, 0.0), doc)
    }

    /// A parameter that takes one of `words` or a number within a range; the default is the first
    /// word.
    #[must_use]
    pub const fn word_or(
        name: &'static str,
        words: &'static [&'static str],
        range: (f64, f64),
        doc: &'static str,
    ) -> Param {
        Param { name, doc, default: Value::Word(words[0]), range, words, check: None }
    }

    /// A parameter that takes a text that passes `check`, or one of `words`.
    #[must_use]
    pub const fn text(
        name: &'static str,
        default: &'static str,
        words: &'static [&'static str],
        check: Check,
        doc: &'static str,
    ) -> Param {
        let (default, range) = (Value::Word(default), (1.0, 0.0));
        Param { name, doc, default, range, words, check: Some(check) }
    }

    /// Whether the parameter accepts numbers.
    #[must_use]
    pub fn takes_numbers(&self) -> bool {
        self.range.0 <= self.range.1
    }

    fn accept(&self, given: &Given) -> Result<Value, ParamError> {
        let invalid = ParamError::Invalid(self.name);
        match (given, self.check) {
            (Given::Number(n), _) if *n >= self.range.0 && *n <= self.range.1 => {
                Ok(Value::Number(*n))
            }
            (Given::Number(_), _) => Err(invalid),
            (Given::Word(w), check) => match (self.words.iter().find(|x| *x == w), check) {
                (Some(word), _) => Ok(Value::Word(word)),
                (None, None) => Err(invalid),
                (None, Some(check)) => match check(w) {
                    Ok(()) => Ok(Value::Text(w.as_str().into())),
                    Err(error) => Err(ParamError::Text(self.name, error)),
                },
            },
        }
    }
}
