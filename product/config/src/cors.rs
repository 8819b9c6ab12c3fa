//! Cross-origin requests of browsers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Span;
use super::twice::twice;

/// Which web pages may use the gateway.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cors {
    /// Origins as browsers send them, `https://app.example.org`; or `*` alone for every page.
    pub origins: Vec<String>,
    /// How long a browser may cache the answer to a preflight.
    #[serde(default = "ten_minutes")]
    pub max_age: Span,
}

fn ten_minutes() -> Span {
    Span::secs(600)
}

impl Cors {
    /// Whether every page is allowed.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.origins.iter().any(|origin| origin == "*")
    }

    pub(super) fn check(&self, check: &mut impl FnMut(bool, String)) {
        check(
            !self.origins.is_empty(),
            "cors.origins: is empty; list the origins of pages that may send requests, or remove `cors`"
                .to_owned(),
        );
        check(
            !self.is_open() || self.origins.len() == 1,
            "cors.origins: `*` allows every page, so the other origins have no effect; use `*` alone, or remove it"
                .to_owned(),
        );
        twice("cors.origins", &self.origins, check);
        for (i, origin) in self.origins.iter().enumerate().filter(|(_, origin)| *origin != "*") {
            if let Err(wrong) = is_origin(origin) {
                check(
                    false,
                    format!(
                        "cors.origins[{i}]: `{origin}` {wrong}; write it as browsers send it, `https://app.example.org` or `http://localhost:3000`"
                    ),
                );
            }
        }
    }
}

/// Whether a browser could send this as `Origin` (RFC 6454, section 6.2).
fn is_origin(text: &str) -> Result<(), &'static str> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err("has no scheme");
    };
    let of_scheme = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"+-.".contains(&b);
    if scheme.is_empty() || !scheme.bytes().all(of_scheme) {
        return Err("has an unknown scheme");
    }
    if rest.contains(['/', '?', '#', '@', '*']) {
        return Err("has more than scheme, host and port");
    }
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (rest, None),
    };
    let of_host = |b: u8| b.is_ascii_graphic() && !b.is_ascii_uppercase();
    if host.is_empty() || !host.bytes().all(of_host) {
        return Err("has no host, or one with capital letters");
    }
    match (scheme, port) {
        (_, None) => Ok(()),
        ("https", Some("443")) | ("http", Some("80")) => {
            Err("has the default port of its scheme, which browsers leave out")
        }
        (_, Some(port)) => port.parse::<u16>().map(drop).map_err(|_| "has a port above 65535"),
    }
}

#[cfg(test)]
mod tests {
    use crate::Gateway;

    fn read(origins: &str) -> Result<Gateway, String> {
        let yaml = format!("version: 1\ncors: {{origins: {origins}}}\n");
        Gateway::read(&yaml).map_err(|e| e.to_string())
    }

    // Origins in the form that browsers send are accepted; the max age is the configured one.
    #[test]
    fn origins() {
        let good = r#"["https://app.example.org", "http://localhost:3000", "http://[::1]:8000", "tauri://localhost"]"#;
        let cors = read(good).expect("is valid").cors.expect("is there");
        assert_eq!((cors.origins.len(), cors.is_open(), cors.max_age.0.as_secs()), (4, false, 600));
        assert!(read(r#"["*"]"#).expect("is valid").cors.expect("is there").is_open());
    }

    // An origin that no browser sends is an error with field, value and remedy.
    #[test]
    fn what_no_browser_sends() {
        for (wrong, says) in [
            ("[]", "cors.origins: is empty"),
            (r#"["*", "https://a"]"#, "use `*` alone"),
            (r#"["app.example.org"]"#, "cors.origins[0]: `app.example.org` has no scheme"),
            (r#"["https://a", "https://b/"]"#, "cors.origins[1]: `https://b/` has more"),
            (r#"["https://*.example.org"]"#, "has more than scheme, host and port"),
            (r#"["HTTPS://a"]"#, "has an unknown scheme"),
            (r#"["https://A"]"#, "has no host, or one with capital letters"),
            (r#"["https://"]"#, "has no host, or one with capital letters"),
            (r#"["https://a:443"]"#, "the default port of its scheme"),
            (r#"["http://a:99999"]"#, "has a port above 65535"),
        ] {
            let error = read(wrong).expect_err("can't work");
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
