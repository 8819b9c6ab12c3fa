//! Residency rules as gateways send them to each other: by value, so they apply even if the other
//! gateway's configuration does not contain them yet.
//!
//! `eu-only:eu jurisdiction=eu;near:eu us` in one header. Names have a restricted character set, so
//! nothing has to be escaped.

use meridian_base::residency::{Rule, Term};

use super::identity::label;

/// Most rules of a gateway, and of one request.
pub const MOST_RULES: usize = 64;
/// Most places of a rule.
pub const MOST_TERMS: usize = 64;

/// Reads a place: a region, or `name=value`.
///
/// # Errors
/// The text received and the expected form.
pub fn term(text: &str) -> Result<Term, String> {
    let bad = || {
        let shown: String = text.chars().take(80).collect();
        format!(
            "`{shown}` is not a place; write a region (eu), or a label (jurisdiction=eu) of letters, digits and . _ - /"
        )
    };
    let fits = |part: &str| {
        let inner = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
        !part.is_empty() && part.len() <= 63 && part.bytes().all(inner)
    };
    match text.split_once('=') {
        None if label("region", text).is_ok() => Ok(Term::Region(text.to_owned())),
        Some((name, value)) if fits(name) && fits(value) => {
            Ok(Term::Label(name.to_owned(), value.to_owned()))
        }
        _ => Err(bad()),
    }
}

/// A place as it is written.
#[must_use]
pub fn shown(term: &Term) -> String {
    match term {
        Term::Region(region) => region.clone(),
        Term::Label(name, value) => format!("{name}={value}"),
    }
}

/// Rules as a header's value.
pub(super) fn written<'a>(rules: impl Iterator<Item = &'a Rule>) -> String {
    let one = |rule: &Rule| {
        let terms: Vec<String> = rule.run_in.iter().map(shown).collect();
        format!("{}:{}", rule.name, terms.join(" "))
    };
    rules.map(one).collect::<Vec<_>>().join(";")
}

/// Reads the output of [`written`]; none for anything else. The rules apply to the request that
/// carries them.
pub(super) fn read(text: &str) -> Option<Vec<Rule>> {
    let one = |part: &str| {
        let (name, places) = part.split_once(':')?;
        label("name", name).ok()?;
        let run_in: Vec<Term> = places.split(' ').map(term).collect::<Result<_, _>>().ok()?;
        (run_in.len() <= MOST_TERMS).then(|| Rule {
            name: name.to_owned(),
            run_in,
            ..Rule::default()
        })
    };
    let rules: Vec<Rule> = text.split(';').map(one).collect::<Option<_>>()?;
    (rules.len() <= MOST_RULES).then_some(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Written rules read back as the same, and any other text is rejected as a whole: no rule is
    // left out because it can't be read.
    #[test]
    fn read_back() {
        let text = "eu-only:eu jurisdiction=eu;near:us";
        let rules = read(text).unwrap();
        assert_eq!((rules.len(), rules[0].run_in.len()), (2, 2));
        assert_eq!(written(rules.iter()), text);
        for bad in ["", "eu-only", "eu-only:", ":eu", "a:eu;", "a:eu  us", "a:E", "a:x=", "A:eu"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
