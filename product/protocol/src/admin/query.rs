//! Query parameters of an admin port. They are read strictly: a mistyped one must not be ignored.
//!
//! Values are numbers, names and booleans, which need no percent escapes.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The parameters of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query(BTreeMap<String, Option<String>>);

/// Invalid parameters: the error names them and the valid ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadQuery(String);

impl BadQuery {
    /// Error code of the response; its status is 400.
    pub const CODE: &str = "invalid_parameter";
}

impl Query {
    /// Reads the query string; `known` are the parameters of this request.
    ///
    /// # Errors
    /// If a parameter is unknown or given twice.
    pub fn read(text: Option<&str>, known: &[&str]) -> Result<Query, BadQuery> {
        let mut found = BTreeMap::new();
        for pair in text.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = match pair.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (pair, None),
            };
            if !known.contains(&name) {
                let known = match known {
                    [] => "it has none".to_owned(),
                    known => format!("use {}", known.join(", ")),
                };
                let message =
                    format!("?{}: is not a parameter of this request; {known}", shown(name));
                return Err(BadQuery(message));
            }
            if found.insert(name.to_owned(), value).is_some() {
                return Err(BadQuery(format!("?{name}: is given twice; give it once")));
            }
        }
        Ok(Query(found))
    }

    /// A boolean in the usual spellings. A bare name means true, an absent one false.
    ///
    /// # Errors
    /// If the value is not a boolean.
    pub fn flag(&self, name: &str) -> Result<bool, BadQuery> {
        let Some(given) = self.0.get(name) else { return Ok(false) };
        let Some(given) = given else { return Ok(true) };
        match given.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" => Ok(true),
            "false" | "0" | "no" | "off" => Ok(false),
            _ => Err(BadQuery(format!(
                "{name}: `{}` is not a yes or no; use true or false",
                shown(given)
            ))),
        }
    }

    /// A number within bounds, if given.
    ///
    /// # Errors
    /// If the value is not a number within bounds.
    ///
    /// # Panics
    /// If no number is within the bounds.
    pub fn number<N>(&self, name: &str, bounds: RangeInclusive<N>) -> Result<Option<N>, BadQuery>
    where
        N: FromStr + PartialOrd + Display,
    {
        assert!(bounds.start() <= bounds.end(), "a number can be within the bounds");
        let Some(given) = self.0.get(name) else { return Ok(None) };
        let given = given.as_deref().unwrap_or_default();
        let number = given.parse().ok().filter(|number| bounds.contains(number));
        number.map(Some).ok_or_else(|| {
            let (least, most) = (bounds.start(), bounds.end());
            let given = shown(given);
            BadQuery(format!("{name}: `{given}` is not a number from {least} to {most}; use one"))
        })
    }

    /// A text, if given.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|given| given.as_deref().unwrap_or_default())
    }
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(text: &str) -> Result<bool, String> {
        let query = Query::read(Some(text), &["drain", "force"]).map_err(|e| e.to_string())?;
        query.flag("drain").map_err(|e| e.to_string())
    }

    // Booleans are read in the usual spellings; anything else is refused, never taken for false.
    #[test]
    fn booleans() {
        for yes in ["drain=1", "drain=true", "drain=True", "drain=YES", "drain=on", "drain"] {
            assert_eq!(flag(yes), Ok(true), "{yes}");
        }
        for no in ["drain=0", "drain=false", "drain=No", "drain=off", "", "force=1"] {
            assert_eq!(flag(no), Ok(false), "{no}");
        }
        for bad in ["drain=", "drain=ture", "drain=2", "drain=true%20"] {
            let error = flag(bad).expect_err(bad);
            assert!(error.ends_with("is not a yes or no; use true or false"), "{error}");
        }
    }

    // The error about an unknown parameter lists the known ones. A parameter given twice is
    // refused.
    #[test]
    fn unknown_parameters() {
        let said = flag("drian=1").expect_err("is unknown");
        assert_eq!(said, "?drian: is not a parameter of this request; use drain, force");
        assert_eq!(
            flag("drain=1&drain=0").expect_err("twice"),
            "?drain: is given twice; give it once"
        );
        let said = Query::read(Some("x"), &[]).expect_err("it has none").to_string();
        assert_eq!(said, "?x: is not a parameter of this request; it has none");
        assert_eq!(Query::read(None, &[]), Ok(Query::default()));
    }

    // Numbers have bounds, and the error names them.
    #[test]
    fn numbers() {
        let number = |text: &str| {
            let query = Query::read(Some(text), &["last"]).map_err(|e| e.to_string())?;
            query.number("last", 1..=1000).map_err(|e| e.to_string())
        };
        assert_eq!((number("last=20"), number("")), (Ok(Some(20)), Ok(None)));
        for bad in ["last=0", "last=1001", "last=ten", "last=", "last"] {
            let error = number(bad).expect_err(bad);
            assert!(error.ends_with("is not a number from 1 to 1000; use one"), "{error}");
        }
    }
}
