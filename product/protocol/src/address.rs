//! Addresses of replicas as URLs.

/// Checks a replica's base address.
///
/// # Errors
/// The problem and its remedy.
pub fn base_url(url: &str) -> Result<http::Uri, String> {
    let shown = without_password(url);
    let uri: http::Uri = match url.parse() {
        Ok(uri) if !url.contains("@") => uri,
        Ok(_) => {
            return Err(format!(
                "`{shown}` has a user name or a password; write `{}`, and set `engine_key` or `credentials` if the engine needs a key",
                with_scheme(&shown)
            ));
        }
        Err(_) => {
            return Err(format!(
                "`{shown}` is not a URL; write http://host:port or https://host:port"
            ));
        }
    };
    match uri.scheme_str() {
        Some("http" | "https") => {}
        Some(other) => {
            return Err(format!("`{url}` has the scheme {other}; write `{}`", with_scheme(url)));
        }
        None => return Err(format!("`{url}` has no scheme; write `{}`", with_scheme(url))),
    }
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    let port = uri.host().and_then(|host| authority.get(host.len()..)).unwrap_or_default();
    let is_port =
        port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok_and(|n| n > 0));
    if !(port.is_empty() || is_port) {
        return Err(format!("`{url}` has no port from 1 to 65535; write http://host:port"));
    }
    if uri.path() != "/" || uri.query().is_some() {
        return Err(format!(
            "`{url}` has a path; write `{}`: the gateway adds the path of each request",
            with_scheme(url)
        ));
    }
    Ok(uri)
}

/// Host and port of a replica's address; none if it is not an address.
#[must_use]
pub fn authority(url: &str) -> Option<String> {
    let uri = base_url(url).ok()?;
    uri.authority().map(|authority| authority.as_str().to_owned())
}

/// The base address that was probably meant.
#[must_use]
pub fn with_scheme(text: &str) -> String {
    let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
    let scheme = if scheme == "https" { scheme } else { "http" };
    let host = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}")
}

/// The URL without its user name and password.
fn without_password(url: &str) -> String {
    let Some((before, host)) = url.rsplit_once('@') else { return url.to_owned() };
    let scheme = before.find("://").map_or("", |at| &before[..at + 3]);
    format!("{scheme}...@{host}")
}
