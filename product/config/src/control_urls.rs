//! The addresses of the control planes that a gateway may follow: one, or a list of those that serve
//! one registry, the nearest first.

use std::fmt;

use http::uri::Authority;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Most control planes of one registry; each keeps all of it in memory.
pub const MOST_CONTROL_PLANES: usize = 16;

/// `url: http://c1:8090` or `url: [http://c1:8090, http://c2:8090]`. A single one is printed without
/// the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlUrls(Vec<String>);

impl ControlUrls {
    /// All of them, in order.
    #[must_use]
    pub fn all(&self) -> &[String] {
        &self.0
    }

    /// Whether they are reached over TLS. [`super::Gateway::problems`] rejects a mixture.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.first().is_some_and(|url| url.starts_with("https://"))
    }

    /// Their hosts and ports, in order; those that [`super::Gateway::problems`] rejects are left
    /// out.
    #[must_use]
    pub fn authorities(&self) -> Vec<Authority> {
        self.0.iter().filter_map(|url| authority(url)).collect()
    }

    /// The place of one in the file, for messages: `control.url` or `control.url[1]`.
    #[must_use]
    pub fn field(&self, at: usize) -> String {
        if self.0.len() == 1 { "control.url".to_owned() } else { format!("control.url[{at}]") }
    }

    pub(super) fn check(&self, check: &mut impl FnMut(bool, String)) {
        check(
            !self.0.is_empty(),
            "control.url: is empty; write an address, as in http://127.0.0.1:8090".to_owned(),
        );
        check(
            self.0.len() <= MOST_CONTROL_PLANES,
            format!(
                "control.url: has {} addresses; use at most {MOST_CONTROL_PLANES}",
                self.0.len()
            ),
        );
        let scheme = |url: &str| if url.starts_with("https://") { "https" } else { "http" };
        let mut seen: Vec<(Authority, usize)> = Vec::new();
        for (i, url) in self.0.iter().enumerate() {
            let field = self.field(i);
            let Some(authority) = authority(url) else {
                let remedy = "write it as http://127.0.0.1:8090";
                check(false, format!("{field}: `{url}` is not an address; {remedy}"));
                continue;
            };
            if let Some((_, twin)) = seen.iter().find(|(known, _)| *known == authority) {
                let twin = self.field(*twin);
                check(false, format!("{field}: `{url}` is also {twin}; remove one"));
                continue;
            }
            if let Some((_, first)) = seen.first()
                && scheme(&self.0[*first]) != scheme(url)
            {
                let (first, theirs) = (self.field(*first), scheme(&self.0[*first]));
                check(
                    false,
                    format!(
                        "{field}: `{url}` is not {theirs}, as {first} is; write all of them with one scheme"
                    ),
                );
            }
            seen.push((authority, i));
        }
    }
}

impl From<&str> for ControlUrls {
    fn from(url: &str) -> ControlUrls {
        ControlUrls(vec![url.to_owned()])
    }
}

/// As in a message: with commas in between.
impl fmt::Display for ControlUrls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join(", "))
    }
}

fn authority(url: &str) -> Option<Authority> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
    let authority: Authority = rest.strip_suffix('/').unwrap_or(rest).parse().ok()?;
    let fits = !authority.host().is_empty()
        && authority.port_u16().is_some_and(|port| port > 0)
        && !authority.as_str().contains('@');
    fits.then_some(authority)
}

impl Serialize for ControlUrls {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(to),
            all => all.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for ControlUrls {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<ControlUrls, D::Error> {
        struct OneOrList;
        impl<'de> Visitor<'de> for OneOrList {
            type Value = ControlUrls;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an address, as in http://127.0.0.1:8090, or a list of addresses")
            }
            fn visit_str<E>(self, url: &str) -> Result<ControlUrls, E> {
                Ok(ControlUrls::from(url))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ControlUrls, A::Error> {
                let mut urls = Vec::new();
                while let Some(url) = list.next_element()? {
                    urls.push(url);
                }
                Ok(ControlUrls(urls))
            }
        }
        from.deserialize_any(OneOrList)
    }
}

#[cfg(test)]
mod tests {
    use crate::Gateway;

    fn read(url: &str) -> Result<Gateway, String> {
        let yaml = format!("version: 1\ncontrol: {{url: {url}, name: us-1}}\n");
        Gateway::read(&yaml).map_err(|error| error.to_string())
    }

    /// The lines about `control` of the printed file.
    fn printed(url: &str) -> String {
        let text = read(url).unwrap().print().unwrap();
        let from = text.lines().skip_while(|line| *line != "control:").skip(1);
        from.take_while(|line| line.starts_with(' ')).collect::<Vec<_>>().join("\n")
    }

    // One address is printed as a text, also if it was a list; several are a list, in their order.
    // Both forms read back.
    #[test]
    fn one_or_several() {
        let one = printed("'http://c1:8090'");
        assert_eq!(one, "  url: http://c1:8090\n  name: us-1\n  lease: 5s");
        assert_eq!(printed("['http://c1:8090']"), one);
        let several = read("['https://c2:8090', 'https://c1:8090/']");
        let error = several.unwrap_err();
        assert!(error.contains("control.tls: is missing, and control.url is https"), "{error}");
        let config = read("['http://c2:8090', 'http://c1:8090/']").unwrap();
        assert_eq!(Gateway::read(&config.print().unwrap()).unwrap(), config);
        let control = config.control.unwrap();
        let authorities = control.url.authorities();
        assert_eq!(authorities, ["c2:8090", "c1:8090"]);
        assert_eq!(control.url.to_string(), "http://c2:8090, http://c1:8090/");
    }

    // Each problem names the address by its place in the list.
    #[test]
    fn problems() {
        for (url, problem) in [
            ("[]", "control.url: is empty; write an address"),
            ("[5, 'http://c1:8090']", "control.url[0]: `5` is not an address; write it as"),
            ("['http://c1:1', 'c2:1']", "control.url[1]: `c2:1` is not an address; write it as"),
            (
                "['http://c1:1', 'http://C1:1/']",
                "control.url[1]: `http://C1:1/` is also control.url[0]",
            ),
            (
                "['http://c1:1', 'https://c2:1']",
                "control.url[1]: `https://c2:1` is not http, as control.url[0] is",
            ),
            (
                "5",
                "control.url: `5` does not fit here; write an address, as in http://127.0.0.1:8090, or a list",
            ),
            ("{a: b}", "control.url: a section does not fit here; write an address"),
            ("", "control.url: an empty value does not fit here; write an address"),
        ] {
            let error = read(url).unwrap_err();
            assert!(error.contains(problem), "{url}: {error}");
        }
        let many = |n: usize| {
            let urls: Vec<_> = (0..n).map(|i| format!("'http://c{i}:1'")).collect();
            read(&format!("[{}]", urls.join(", ")))
        };
        assert!(many(16).is_ok());
        let error = many(17).unwrap_err();
        assert!(error.contains("control.url: has 17 addresses; use at most 16"), "{error}");
    }
}
