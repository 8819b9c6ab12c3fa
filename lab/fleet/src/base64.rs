//! Base64, in which etcd's JSON has its keys and values.

const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let at = |n: usize| u32::from(three.get(n).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for nth in 0..4 {
            let sign = SIGNS[(bits >> (18 - 6 * nth) & 63) as usize];
            text.push(if nth <= three.len() { char::from(sign) } else { '=' });
        }
    }
    text
}

/// The bytes; none if the text is not base64.
pub(crate) fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for four in text.trim_end_matches('=').as_bytes().chunks(4) {
        let place = |sign: &u8| SIGNS.iter().position(|one| one == sign);
        let places: Vec<usize> = four.iter().map(place).collect::<Option<_>>()?;
        let bits = (0..4).fold(0, |bits, nth| bits << 6 | places.get(nth).copied().unwrap_or(0));
        let three = [(bits >> 16) as u8, (bits >> 8) as u8, bits as u8];
        bytes.extend(&three[..(four.len() * 6 / 8)]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    // The examples of RFC 4648, both ways.
    #[test]
    fn both_ways() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(encode(bytes.as_bytes()), text);
            assert_eq!(decode(text).as_deref(), Some(bytes.as_bytes()));
        }
        assert_eq!(decode("a*b="), None);
    }
}
