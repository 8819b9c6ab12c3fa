//! The parts of what the collecting script prints on a server.
//!
//! A line `=== meridian discover: NAME` starts a part. The last one, `end`, shows that nothing was
//! cut off.

use std::collections::BTreeMap;

use crate::problem::Problems;

/// The line before each part.
const MARK: &str = "=== meridian discover: ";
/// The version of the script's output that this program reads.
const VERSION: &str = "1";

/// The text of each part.
pub(super) struct Parts<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Parts<'a> {
    /// Splits the output of the script on a server.
    ///
    /// # Errors
    ///
    /// If it is another text, of another version, or cut off.
    pub(super) fn read(server: &str, text: &'a str) -> Result<Parts<'a>, Problems> {
        let mut parts = BTreeMap::new();
        for part in text.split(MARK).skip(1) {
            let (name, body) = part.split_once('\n').unwrap_or((part, ""));
            // The last cell of a line may be empty, so its tab stays.
            parts.insert(name.trim(), body.trim_matches(['\n', '\r']));
        }
        let remedy = "run the script of `meridian plan discover --script` on it again";
        let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
        let mut found = Problems(Vec::new());
        match parts.get("version") {
            None => {
                let first: String = first.chars().take(100).collect();
                found.unless(false, format!("{server}: output"), first, remedy);
            }
            Some(version) => {
                let other = format!("this program reads version {VERSION}; {remedy}");
                let field = format!("{server}: version");
                found.unless(*version == VERSION, field, version, other);
                let last = text.lines().last().unwrap_or_default();
                let cut = format!("it is cut off; {remedy}");
                found.unless(parts.contains_key("end"), format!("{server}: end"), last, cut);
            }
        }
        found.or(Parts(parts))
    }

    /// The text of a part; empty if the server has none.
    pub(super) fn get(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }
}

/// A PCI address in one form: tools write the domain with four or eight digits.
pub(super) fn pci(text: &str) -> Option<String> {
    let mut parts = text.trim().split(':');
    let (domain, bus, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let domain = u32::from_str_radix(domain, 16).ok()?;
    Some(format!("{domain:04x}:{}:{}", bus.to_lowercase(), rest.to_lowercase()))
}

/// A NUMA node. The kernel writes -1 on a server that has one node only.
pub(super) fn numa(text: &str) -> u8 {
    text.trim().parse().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Parts are separated; a text that is not the script's, or is cut off, is an error.
    #[test]
    fn parts_of_a_text() {
        let text = "\n=== meridian discover: version\n1\n\n=== meridian discover: gpus\na\nb\n\n\
                    === meridian discover: end\n";
        let parts = Parts::read("a", text).unwrap();
        assert_eq!((parts.get("gpus"), parts.get("topo")), ("a\nb", ""));
        let error = |text: &str| Parts::read("a", text).err().unwrap().to_string();
        assert!(
            error("bash: sh: not found").starts_with("a: output: bash: sh: not found; run the")
        );
        assert!(error("").starts_with("a: output: nothing;"));
        assert!(error(&text[..text.len() - 28]).contains("a: end: b; it is cut off;"));
        assert!(error(&text.replace('1', "2")).starts_with("a: version: 2; this program reads"));
    }

    // One form of PCI addresses.
    #[test]
    fn addresses_of_cards() {
        assert_eq!(pci("00000000:1B:00.0"), Some("0000:1b:00.0".to_owned()));
        assert_eq!(pci("0001:00:00.0"), Some("0001:00:00.0".to_owned()));
        assert_eq!((pci("1B:00.0"), pci("N/A"), pci("virtio0")), (None, None, None));
    }
}
