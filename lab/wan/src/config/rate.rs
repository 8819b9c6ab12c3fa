//! A rate as a value with its unit: `10MiB/s`, or `unlimited`.

use std::num::NonZeroU64;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// Bytes a second; none for no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate(pub Option<NonZeroU64>);

const UNLIMITED: &str = "unlimited";

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            None => s.serialize_str(UNLIMITED),
            // In plain bytes, since a rounded mebibyte would read back as another rate.
            Some(bytes) => s.collect_str(&format_args!("{bytes}B/s")),
        }
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Rate, D::Error> {
        let text = String::deserialize(d)?;
        if text == UNLIMITED {
            return Ok(Rate(None));
        }
        let bytes =
            text.strip_suffix("/s").and_then(|size| size.parse::<bytesize::ByteSize>().ok());
        match bytes.and_then(|bytes| NonZeroU64::new(bytes.0)) {
            Some(bytes) => Ok(Rate(Some(bytes))),
            None => Err(D::Error::custom(format!(
                "`{text}` is not a rate; write a size per second above 0, as in 64KiB/s or 10MB/s, or \
                 {UNLIMITED}; to stop a link, cut it"
            ))),
        }
    }
}
