//! The page that shows a gateway or a fleet in a browser: its files, embedded, and the answers that
//! send them.
//!
//! The files are served as they are, without a build step, and load nothing from other hosts. Two
//! programs serve them: a gateway at its admin port, and `meridian up`. They differ in one small file,
//! `/page/source.js`, which says where the state comes from.
//!
//! It has no state and no socket.

mod assets;
#[cfg(test)]
mod contrast;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};

use self::assets::{Asset, FILES, SOURCES};

/// The program that serves the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Host {
    /// A gateway's admin port.
    Gateway,
    /// `meridian up`.
    Up,
}

/// The Content-Security-Policy of every answer: only files of the page's own host are loaded, no
/// script or style is inline, and no other page may frame it.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; \
    frame-ancestors 'none'";

/// The answer to `GET path`; `known` is the value of `If-None-Match`. None if the path is not a file
/// of the page.
#[must_use]
pub fn answer(host: Host, path: &str, known: Option<&[u8]>) -> Option<Response<Bytes>> {
    let asset = find(host, path)?;
    let tag = format!("\"{:016x}\"", asset.hash);
    let is_known = known.is_some_and(|known| known == tag.as_bytes());
    let body = if is_known { Bytes::new() } else { Bytes::from_static(asset.text.as_bytes()) };
    let mut response = Response::new(body);
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    let fixed: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_TYPE, asset.kind()),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Kept, and compared with the server's at each use: a new version shows at once.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    let tag = HeaderValue::try_from(tag).expect("quotes and hex digits are a header");
    headers.insert(header::ETAG, tag);
    Some(response)
}

fn find(host: Host, path: &str) -> Option<&'static Asset> {
    if path == "/page/source.js" {
        return Some(&SOURCES[host as usize]);
    }
    let is_login = path.starts_with("/login");
    FILES.iter().find(|file| file.path == path).filter(|_| host == Host::Gateway || !is_login)
}

#[cfg(test)]
mod tests;
