//! A view of the registry that a gateway saves in a file, for a start without the control plane.
//!
//! Two lines of JSON: a header, and the [`Snapshot`]. The header contains the format version, the
//! gateway's region, when the view was current, and a checksum of the rest. They show whether a
//! file belongs to another region, is cut short or is damaged. The checksum protects against
//! accidents only: a process that can write the file can forge it.

use meridian_base::keyed;
use serde::{Deserialize, Serialize};

use super::Snapshot;

/// Version of the format.
const VERSION: u32 = 1;

/// A view, and when it was current.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// The region of the gateway that saved it.
    pub region: String,
    /// When the control plane last confirmed it, in seconds since 1970.
    pub at: u64,
    /// The view.
    pub view: Snapshot,
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    region: String,
    at: u64,
    /// Checksum, in hex.
    sum: String,
}

/// The part of the header that every version has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

/// Why a file is unusable.
#[derive(Debug, thiserror::Error)]
pub enum NotKept {
    /// The first line is not such a header.
    #[error("it does not start like a saved view: {0}")]
    Header(serde_json::Error),
    /// Another version wrote it.
    #[error(
        "version: {0} is unknown, and this gateway reads {VERSION}; a gateway of another version wrote it"
    )]
    Version(u32),
    /// A gateway of another region wrote it.
    #[error("region: is `{of}` instead of `{here}`; give each gateway its own file")]
    Region {
        /// The file's region.
        of: String,
        /// The gateway's region.
        here: String,
    },
    /// The checksum does not match.
    #[error("sum: `{said}` differs from `{found}`; the file is incomplete or damaged")]
    Sum {
        /// The header's checksum.
        said: String,
        /// The actual checksum.
        found: String,
    },
    /// The view does not have the form that this program expects.
    #[error("its view can't be read: {0}")]
    View(serde_json::Error),
}

impl Kept {
    /// The contents of the file.
    ///
    /// # Panics
    /// Never: the keys of all maps are strings.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let view = serde_json::to_vec(&self.view).expect("keys are strings");
        let sum = sum(self.at, &view);
        let header = Header { version: VERSION, region: self.region.clone(), at: self.at, sum };
        let mut file = serde_json::to_vec(&header).expect("keys are strings");
        assert!(!file.contains(&b'\n'), "the header is one line");
        file.push(b'\n');
        file.extend(view);
        file.push(b'\n');
        file
    }

    /// Reads the file for a gateway of the region `here`.
    ///
    /// # Errors
    /// Why it is unusable.
    pub fn read(file: &[u8], here: &str) -> Result<Kept, NotKept> {
        let end = memchr::memchr(b'\n', file).unwrap_or(file.len());
        let (head, rest) = file.split_at(end);
        let Versioned { version } = serde_json::from_slice(head).map_err(NotKept::Header)?;
        if version != VERSION {
            return Err(NotKept::Version(version));
        }
        let header: Header = serde_json::from_slice(head).map_err(NotKept::Header)?;
        if header.region != here {
            return Err(NotKept::Region { of: header.region, here: here.to_owned() });
        }
        let view = rest.trim_ascii();
        let found = sum(header.at, view);
        if found != header.sum {
            return Err(NotKept::Sum { said: header.sum, found });
        }
        let view = serde_json::from_slice(view).map_err(NotKept::View)?;
        Ok(Kept { region: header.region, at: header.at, view })
    }
}

/// Checksum of a view and of when it was current.
fn sum(at: u64, view: &[u8]) -> String {
    format!("{:016x}", keyed(at, view))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kept() -> Kept {
        let view = serde_json::json!({
            "store": "s", "revision": 7,
            "regions": {"eu": {"labels": {"jurisdiction": "eu"}, "policy": "chwbl"}},
            "replicas": {"a": {"region": "eu", "spec": {"url": "http://10.0.0.1:8000"}}},
            "gateways": {"eu-1": {"region": "eu", "address": "x", "version": "1", "rtt_ms": {"us": 92.25}}}
        });
        let view = serde_json::from_value(view).unwrap();
        Kept { region: "eu".into(), at: 1_800_000_000, view }
    }

    // The format is fixed, since a later program reads files of an earlier one.
    #[test]
    fn form() {
        let file = String::from_utf8(kept().to_bytes()).unwrap();
        expect_test::expect![[r#"
            {"version":1,"region":"eu","at":1800000000,"sum":"335e4bc7c50fc084"}
            {"store":"s","revision":7,"regions":{"eu":{"labels":{"jurisdiction":"eu"},"policy":"chwbl","wanted":"up"}},"replicas":{"a":{"region":"eu","spec":{"url":"http://10.0.0.1:8000","engine":"auto"},"wanted":"up"}},"gateways":{"eu-1":{"region":"eu","address":"x","version":"1","rtt_ms":{"us":92.25}}}}
        "#]]
        .assert_eq(&file);
        assert_eq!(Kept::read(file.as_bytes(), "eu").unwrap(), kept());
    }

    // The error about a file of another version or region, or about a foreign file, names the
    // problem and the remedy.
    #[test]
    fn foreign_files() {
        let file = String::from_utf8(kept().to_bytes()).unwrap();
        let error =
            |file: &str, region| Kept::read(file.as_bytes(), region).unwrap_err().to_string();
        let other = file.replace(r#""version":1,"region""#, r#""version":2,"area""#);
        assert!(error(&other, "eu").starts_with("version: 2 is unknown, and this gateway reads 1"));
        assert!(
            error(&file, "us").starts_with("region: is `eu` instead of `us`; give each gateway")
        );
        assert!(error("replicas: []\n", "eu").starts_with("it does not start like a saved view"));
        assert!(error("", "eu").starts_with("it does not start like a saved view"));
        let later = file.replace("1800000000", "1800000001");
        assert!(error(&later, "eu").contains("incomplete or damaged"), "{}", error(&later, "eu"));
    }

    proptest! {
        // A file that was cut off anywhere is unusable; only the last line end may be missing.
        #[test]
        fn truncated(share in 0.0..1.0_f64) {
            let file = kept().to_bytes();
            let length = ((file.len() - 1) as f64 * share) as usize;
            prop_assert!(Kept::read(&file[..length], "eu").is_err());
            prop_assert!(Kept::read(&file[..file.len() - 1], "eu").is_ok());
        }

        // A changed byte never goes unnoticed in the view.
        #[test]
        fn flipped(share in 0.0..1.0_f64, bit in 0..8_u8) {
            let mut file = kept().to_bytes();
            let at = ((file.len() - 1) as f64 * share) as usize;
            file[at] ^= 1 << bit;
            prop_assert!(Kept::read(&file, "eu").map_or(true, |read| read == kept()));
        }
    }
}
