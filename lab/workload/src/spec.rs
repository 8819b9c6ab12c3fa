//! A generator's declaration: its name, its source, its knobs and its constructor.
//!
//! Given values are checked against the knobs, and all errors are reported at once.

use crate::generators::tiers;
use crate::{Generator, Tiers};

/// A generator's declaration.
pub struct GeneratorSpec {
    /// Its name in experiments and on the command line.
    pub name: &'static str,
    /// One line for lists and docs.
    pub summary: &'static str,
    /// The source of its figures.
    pub source: &'static str,
    /// The load under which it was measured.
    pub load: PublishedLoad,
    /// Its own knobs; [`GeneratorSpec::knobs`] also has those that all generators share.
    pub params: &'static [GeneratorParam],
    /// Builds a generator from complete parameters.
    pub(crate) make: fn(&GeneratorParams) -> Box<dyn Generator>,
}

/// The load under which a workload was published.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PublishedLoad {
    /// Clients of each region (US, Europe, Asia), with one program at a time.
    Clients(&'static [u32]),
    /// Requests a second.
    PerSecond(f64),
    /// No load is published.
    Any,
}

/// One knob of a generator: a number.
#[derive(Clone, Copy, Debug)]
pub struct GeneratorParam {
    /// Its key.
    pub name: &'static str,
    /// Its effect, with its unit.
    pub doc: &'static str,
    /// Its default.
    pub default: f64,
    /// Smallest and largest value allowed.
    pub range: (f64, f64),
}

/// Why given parameters do not fit a generator.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GeneratorError {
    /// The generator has no such knob.
    #[error("{generator} has no parameter {param:?}: use one of {known}")]
    Unknown {
        /// The generator.
        generator: &'static str,
        /// The given name.
        param: String,
        /// The known names.
        known: String,
    },
    /// The value is not allowed.
    #[error("{generator}: {param} is {value}: use {low} to {high}")]
    Range {
        /// The generator.
        generator: &'static str,
        /// The knob.
        param: &'static str,
        /// The given value.
        value: f64,
        /// The smallest value allowed.
        low: f64,
        /// The largest value allowed.
        high: f64,
    },
}

impl GeneratorSpec {
    /// Its own knobs, then those that every generator has.
    pub fn knobs(&self) -> impl Iterator<Item = &'static GeneratorParam> + use<> {
        self.params.iter().chain(tiers::PARAMS)
    }

    /// The generator with its published parameters.
    #[must_use]
    pub fn published(&'static self) -> Box<dyn Generator> {
        (self.make)(&GeneratorParams::defaults(self))
    }

    /// The generator with `given` in place of defaults. If a name is given twice, the last counts.
    ///
    /// # Errors
    /// Every unknown name and every value out of range, all at once.
    pub fn build(
        &'static self,
        given: &[(String, f64)],
    ) -> Result<Box<dyn Generator>, Vec<GeneratorError>> {
        let params = GeneratorParams::complete(self, given)?;
        let inner = (self.make)(&params);
        Ok(match Tiers::laid_over(&params) {
            Some(tiers) => Box::new(tiers.over(inner)),
            None => inner,
        })
    }
}

/// A generator's parameters, complete: defaults filled in, every value within its range.
#[derive(Clone, Debug)]
pub(crate) struct GeneratorParams(Vec<(&'static str, f64)>);

impl GeneratorParams {
    fn defaults(spec: &GeneratorSpec) -> GeneratorParams {
        GeneratorParams(spec.knobs().map(|p| (p.name, p.default)).collect())
    }

    fn complete(
        spec: &'static GeneratorSpec,
        given: &[(String, f64)],
    ) -> Result<GeneratorParams, Vec<GeneratorError>> {
        let mut params = GeneratorParams::defaults(spec);
        let mut errors = Vec::new();
        for (name, value) in given {
            match spec.knobs().position(|p| p.name == name) {
                Some(i) => match spec.knobs().nth(i).and_then(|p| p.refuse(spec.name, *value)) {
                    Some(error) => errors.push(error),
                    None => params.0[i].1 = *value,
                },
                None => errors.push(GeneratorError::Unknown {
                    generator: spec.name,
                    param: name.clone(),
                    known: spec.knobs().map(|p| p.name).collect::<Vec<_>>().join(", "),
                }),
            }
        }
        if errors.is_empty() { Ok(params) } else { Err(errors) }
    }

    /// The value of `name`.
    ///
    /// # Panics
    /// When the generator declared no such knob.
    pub(crate) fn number(&self, name: &str) -> f64 {
        let found = self.0.iter().find(|(n, _)| *n == name);
        found.expect("a generator reads only the knobs that it declares").1
    }

    /// The value of `name`, for a knob that counts something.
    pub(crate) fn count(&self, name: &str) -> u32 {
        self.number(name) as u32
    }
}

impl GeneratorParam {
    /// Why the knob does not take `value`; `None` when it does.
    fn refuse(&self, generator: &'static str, value: f64) -> Option<GeneratorError> {
        let (low, high) = self.range;
        let within = (low..=high).contains(&value);
        let error = GeneratorError::Range { generator, param: self.name, value, low, high };
        (!within).then_some(error)
    }
}

/// A knob, in one line of a table.
pub(crate) const fn knob(
    name: &'static str,
    default: f64,
    range: (f64, f64),
    doc: &'static str,
) -> GeneratorParam {
    GeneratorParam { name, doc, default, range }
}
