//! Checks that keep web pages of other sites away from an admin port.
//!
//! A page that an operator has open in a browser can send requests to ports that only the
//! operator's machine reaches. Three checks detect such requests:
//! - A page may send a form or plain text without asking, but JSON only with the server's consent.
//!   Bodies therefore have to be JSON.
//! - The browser adds `Origin` and `Sec-Fetch-Site`, which name the page's site.
//! - A page whose own name was made to resolve to this address (DNS rebinding) counts as the same
//!   site, but `Host` contains its name.
//!
//! Deliberately not here: tokens and certificates, which authenticate the sender.

use std::net::IpAddr;

use http::uri::Authority;
use http::{HeaderMap, Method, StatusCode, header};

/// The names of one admin port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The setting that lists them, for errors.
    setting: &'static str,
    names: Vec<String>,
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Barred {
    /// The body is not JSON.
    #[error(
        "Content-Type: {0}; send the body as application/json (curl -H 'content-type: application/json')"
    )]
    MediaType(String),
    /// The request's `Host` is not a name of the port.
    #[error(
        "Host: {host} is not a name of this port; use its IP address or localhost, or add the name to {setting}"
    )]
    Host {
        /// The header as sent.
        host: String,
        /// The setting that lists the names.
        setting: &'static str,
    },
    /// A page of another origin sent the request.
    #[error(
        "Origin: {origin} is not this port; open the page at the address that it sends requests to, or add its name to {setting}"
    )]
    Origin {
        /// The header as sent.
        origin: String,
        /// The setting that lists the names.
        setting: &'static str,
    },
    /// The browser says that another site sent the request.
    #[error(
        "Sec-Fetch-Site: {0}; pages of other sites may not change anything here; use a page of this port, or no browser"
    )]
    Site(String),
}

impl Barred {
    /// HTTP status of the response.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Barred::MediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            _ => StatusCode::FORBIDDEN,
        }
    }

    /// Error code of the response.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Barred::MediaType(_) => "not_json",
            Barred::Host { .. } => "foreign_host",
            Barred::Origin { .. } => "foreign_origin",
            Barred::Site(_) => "foreign_site",
        }
    }
}

impl Guard {
    /// A guard for a port that is also reached under `names`, which `setting` lists.
    #[must_use]
    pub fn new(setting: &'static str, names: &[String]) -> Guard {
        Guard { setting, names: names.iter().map(|name| name.to_ascii_lowercase()).collect() }
    }

    /// Checks where a request comes from. `proven`: it brought a token, or came over TLS. A rebound
    /// page can do neither, so its `Host` is not checked.
    ///
    /// # Errors
    /// If a page of another site may have sent it.
    pub fn check(&self, method: &Method, headers: &HeaderMap, proven: bool) -> Result<(), Barred> {
        let host = only(headers, header::HOST.as_str());
        if !proven && !self.is_ours(host) {
            let host = shown(host);
            return Err(Barred::Host { host, setting: self.setting });
        }
        if method.is_safe() && *method != Method::OPTIONS {
            return Ok(());
        }
        let origin = only(headers, header::ORIGIN.as_str());
        if !self.is_own_origin(origin, host) {
            let origin = shown(origin);
            return Err(Barred::Origin { origin, setting: self.setting });
        }
        match only(headers, "sec-fetch-site") {
            Sent::None => Ok(()),
            Sent::One("same-origin" | "none") => Ok(()),
            // A page of a listed name counts as this port's own.
            Sent::One(_) if matches!(origin, Sent::One(origin) if self.is_listed(origin)) => Ok(()),
            site => Err(Barred::Site(shown(site))),
        }
    }

    fn is_ours(&self, host: Sent<'_>) -> bool {
        let host = match host {
            // Browsers always send it.
            Sent::None => return true,
            Sent::Other => return false,
            Sent::One(host) => host,
        };
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host();
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        bare.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.names.iter().any(|own| {
                own.eq_ignore_ascii_case(name) || own.eq_ignore_ascii_case(authority.as_str())
            })
    }

    fn is_own_origin(&self, origin: Sent<'_>, host: Sent<'_>) -> bool {
        match (origin, host) {
            (Sent::None, _) => true,
            (Sent::One(origin), host) => {
                let is_host = match host {
                    Sent::One(host) => same_place(origin, host),
                    Sent::None | Sent::Other => false,
                };
                is_host || self.is_listed(origin)
            }
            (Sent::Other, _) => false,
        }
    }

    /// Whether an origin is one of the listed names, with or without its port.
    fn is_listed(&self, origin: &str) -> bool {
        let rest = origin.split_once("://").map(|(_, rest)| rest);
        rest.is_some_and(|rest| self.names.iter().any(|own| own.eq_ignore_ascii_case(rest)))
    }
}

/// Whether `scheme://host:port` and `host:port` are the same place. The scheme's default port may
/// be left out.
fn same_place(origin: &str, host: &str) -> bool {
    let Some((scheme, rest)) = origin.split_once("://") else { return false };
    let (Ok(a), Ok(b)) = (rest.parse::<Authority>(), host.parse::<Authority>()) else {
        return false;
    };
    let usual = if scheme == "https" { 443 } else { 80 };
    a.host().eq_ignore_ascii_case(b.host())
        && a.port_u16().unwrap_or(usual) == b.port_u16().unwrap_or(usual)
}

/// Checks that a body is sent as JSON.
///
/// # Errors
/// If it has any other type.
pub fn check_json(headers: &HeaderMap) -> Result<(), Barred> {
    let kind = only(headers, header::CONTENT_TYPE.as_str());
    let is_json = match kind {
        Sent::One(kind) => {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case("application/json")
        }
        Sent::None | Sent::Other => false,
    };
    if is_json { Ok(()) } else { Err(Barred::MediaType(shown(kind))) }
}

/// A header's value.
#[derive(Clone, Copy)]
enum Sent<'a> {
    None,
    One(&'a str),
    /// Several values, or not text.
    Other,
}

fn only<'a>(headers: &'a HeaderMap, name: &str) -> Sent<'a> {
    let mut values = headers.get_all(name).iter();
    match (values.next().map(|value| value.to_str()), values.next()) {
        (None, _) => Sent::None,
        (Some(Ok(value)), None) => Sent::One(value),
        _ => Sent::Other,
    }
}

/// A header value for an error, cut to fit on a line.
fn shown(value: Sent<'_>) -> String {
    match value {
        Sent::None => "(none)".to_owned(),
        Sent::One(value) => value.chars().take(80).collect(),
        Sent::Other => "(no text, or several)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().expect("is a value"));
        }
        headers
    }

    fn checked(method: Method, pairs: &[(&'static str, &'static str)]) -> &'static str {
        let guard = Guard::new("admin_hosts", &["Admin.example.org".to_owned()]);
        match guard.check(&method, &headers(pairs), false) {
            Ok(()) => "ok",
            Err(barred) => barred.code(),
        }
    }

    // The port accepts an IP address, localhost, or a listed name as `Host`. Any other name may be
    // a rebound one.
    #[test]
    fn hosts() {
        for host in [
            "127.0.0.1:8081",
            "10.0.0.7",
            "[::1]:8081",
            "localhost",
            "LOCALHOST:1",
            "admin.example.org",
            "admin.EXAMPLE.org:8081",
        ] {
            assert_eq!(checked(Method::GET, &[("host", host)]), "ok", "{host}");
        }
        for host in [
            "evil.example",
            "127.0.0.1.evil.example:8081",
            "localhost.evil.example",
            "",
            "127.0.0.1@evil.example",
            "evil.example:8081",
            "xadmin.example.org",
        ] {
            assert_eq!(checked(Method::GET, &[("host", host)]), "foreign_host", "{host}");
        }
        assert_eq!(checked(Method::GET, &[]), "ok", "no browser leaves Host out");
        let twice = [("host", "localhost"), ("host", "evil.example")];
        assert_eq!(checked(Method::GET, &twice), "foreign_host");
    }

    // A change comes from a page of this port, a page of a listed name, or no page.
    #[test]
    fn origins() {
        let host = ("host", "127.0.0.1:8081");
        for (origin, site) in [
            ("http://127.0.0.1:8081", "same-origin"),
            ("http://127.0.0.1:8081", "none"),
            ("https://admin.example.org", "cross-site"),
        ] {
            let sent = [host, ("origin", origin), ("sec-fetch-site", site)];
            assert_eq!(checked(Method::POST, &sent), "ok", "{origin} {site}");
        }
        for origin in [
            "http://evil.example",
            "null",
            "http://127.0.0.1:9000",
            "http://127.0.0.1",
            "",
            "http://127.0.0.1:8081.evil.example",
        ] {
            let sent = [host, ("origin", origin)];
            for method in [Method::POST, Method::PUT, Method::DELETE, Method::OPTIONS] {
                assert_eq!(checked(method, &sent), "foreign_origin", "{origin}");
            }
            assert_eq!(checked(Method::GET, &sent), "ok", "the page can't read the answer");
        }
        for site in ["cross-site", "same-site", "anything"] {
            let sent = [host, ("sec-fetch-site", site)];
            assert_eq!(checked(Method::POST, &sent), "foreign_site", "{site}");
        }
        let usual = [("host", "localhost"), ("origin", "http://localhost:80")];
        assert_eq!(checked(Method::POST, &usual), "ok");
        assert_eq!(checked(Method::DELETE, &[host]), "ok", "curl sends no Origin");
    }

    // A token or TLS shows that no rebound page sent the request. Its origin is still checked.
    #[test]
    fn proven_requests() {
        let guard = Guard::new("admin_hosts", &[]);
        let named = headers(&[("host", "gateway.svc:8081")]);
        assert_eq!(guard.check(&Method::POST, &named, true), Ok(()));
        let foreign = headers(&[("host", "gateway.svc"), ("origin", "https://evil.example")]);
        let barred = guard.check(&Method::POST, &foreign, true).map_err(|barred| barred.code());
        assert_eq!(barred, Err("foreign_origin"));
    }

    // Bodies are JSON; the error says how to send them.
    #[test]
    fn bodies() {
        for kind in ["application/json", "Application/JSON; charset=utf-8"] {
            assert_eq!(check_json(&headers(&[("content-type", kind)])), Ok(()), "{kind}");
        }
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
            let barred = check_json(&headers(&[("content-type", kind)])).expect_err(kind);
            assert_eq!(barred.status(), StatusCode::UNSUPPORTED_MEDIA_TYPE);
            assert!(barred.to_string().contains("application/json"), "{barred}");
        }
        assert!(check_json(&HeaderMap::new()).is_err());
    }
}
