//! Values of other programs, as Meridian writes them.

use std::fmt::Write as _;
use std::time::Duration;

use meridian_protocol::address::base_url;
use meridian_protocol::units::{Size, Span};

use super::note::Found;

/// A string in YAML, in double quotes, with escapes for characters that YAML cannot contain.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c => out.push_str(&format!("\\U{:08X}", u32::from(c))),
        }
    }
    out + "\""
}

/// A list of strings in YAML.
pub(super) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let texts: Vec<String> = texts.into_iter().map(quoted).collect();
    format!("[{}]", texts.join(", "))
}

/// A duration in the configuration's form.
pub(super) fn span(time: Duration) -> String {
    plain(&Span(time))
}

/// A size in the configuration's form.
pub(super) fn size(bytes: u64) -> String {
    plain(&Size(bytes))
}

/// A span or size as text. It consists of letters and digits, so it needs no quotes.
fn plain(value: &impl serde::Serialize) -> String {
    let text = match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    };
    assert!(!text.is_empty(), "a span or size is written as a text");
    text
}

/// Column at which comments start, unless the line is longer.
const COMMENTS: usize = 36;

/// Adds the name of a section, unless it is left out.
pub(super) fn heading(yaml: &mut String, text: &str, leave_out: bool) {
    if !leave_out {
        line(yaml, text, None);
    }
}

/// Adds a line, with the origin of its value as a comment.
pub(super) fn line(yaml: &mut String, text: &str, from: Option<&Found>) {
    assert!(!text.contains('\n'), "a value stays on its line");
    // Writing to a string cannot fail.
    let _ = match from {
        Some(from) => writeln!(yaml, "{text:<COMMENTS$} # {from}"),
        None => writeln!(yaml, "{text}"),
    };
}

/// Seconds, possibly with a fraction; none for any other number.
pub(super) fn seconds(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    // Longer than any timeout, and small enough to keep milliseconds exact.
    const MOST: f64 = 1e8;
    let fits = (0.0..=MOST).contains(&seconds);
    fits.then(|| Duration::from_millis((seconds * 1e3).round() as u64))
}

/// A whole number that is not negative, below the numbers that a float cannot hold.
pub(super) fn whole(text: &str) -> Option<u64> {
    let n: f64 = text.trim().parse().ok()?;
    ((0.0..1e15).contains(&n) && n.fract() == 0.0).then_some(n as u64)
}

/// The address of an OpenAI-compatible server as a replica's URL, without the API's path.
///
/// # Errors
/// The reason why it cannot be a replica, and the remedy.
pub(super) fn address(url: &str) -> Result<String, (&'static str, &'static str)> {
    const FORM: &str = "write http://HOST:PORT in replicas[].url";
    let uri: http::Uri = url.trim().parse().map_err(|_| ("it is not a URL", FORM))?;
    let scheme = match uri.scheme_str() {
        Some(scheme @ ("http" | "https")) => scheme,
        Some("grpc" | "grpcs") => {
            return Err((
                "Meridian connects to replicas over HTTP, not gRPC",
                "start the engine's HTTP server and name its address",
            ));
        }
        _ => return Err(("it has no scheme that Meridian knows", FORM)),
    };
    let authority = uri.authority().ok_or(("it has no host", FORM))?.as_str();
    if authority.contains('@') {
        let remedy = "set engine_key, which the gateway sends as `Authorization: Bearer`";
        return Err(("it contains a user name or a data-parallel rank", remedy));
    }
    if !matches!(uri.path().trim_end_matches('/'), "" | "/v1") || uri.query().is_some() {
        let remedy = "serve the API at /v1 of its port, or keep a proxy that rewrites the path";
        return Err(("the path of a replica cannot be configured", remedy));
    }
    let url = format!("{scheme}://{authority}");
    base_url(&url).map(|_| url).map_err(|_| ("it is not an address", FORM))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Every text reads back from YAML unchanged; addresses lose only the API's path.
    #[test]
    fn texts_and_addresses() {
        for text in ["", "a b", "\"\\'#: {}", "ü\u{2028}\u{7f}\u{1f600}", "null", "1e3"] {
            let back: String = serde_saphyr::from_str(&quoted(text)).expect("is a string");
            assert_eq!(back, text);
        }
        for url in ["http://a:1", "http://a:1/", "http://a:1/v1", "http://a:1/v1/"] {
            assert_eq!(address(url).as_deref(), Ok("http://a:1"));
        }
        assert_eq!(address("https://a/v1").as_deref(), Ok("https://a"));
        assert_eq!(address("http://[::1]:8000").as_deref(), Ok("http://[::1]:8000"));
        for url in ["ftp://a", "http://u:p@a", "http://a/x", "http://a?q", "a:1", "", "grpc://a:1"]
        {
            assert!(address(url).is_err(), "{url}");
        }
        assert_eq!(
            (span(Duration::from_secs(90)), size(64 << 20)),
            ("1m 30s".into(), "64MiB".into())
        );
    }
}
