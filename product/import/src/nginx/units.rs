//! nginx's times and sizes.

use std::time::Duration;

/// A time: `60`, `60s`, `1h 30m`; a bare number is seconds.
pub(super) fn time(text: &str) -> Option<Duration> {
    let text = text.trim();
    let bare = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let text = if bare { format!("{text}s") } else { text.to_owned() };
    let time = humantime::parse_duration(&text).ok()?;
    super::super::value::seconds(&time.as_secs_f64().to_string())
}

/// A size: `8192`, `64k`, `10m`, `1g`.
pub(super) fn size(text: &str) -> Option<u64> {
    let shift = match text.bytes().last()?.to_ascii_lowercase() {
        b'k' => 10,
        b'm' => 20,
        b'g' => 30,
        _ => 0,
    };
    let digits = if shift > 0 { &text[..text.len() - 1] } else { text };
    let n: u64 = digits.parse().ok()?;
    n.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Units are nginx's own: no unit is seconds and bytes, m is minutes and mebibytes.
    #[test]
    fn units() {
        let seconds = |text| time(text).map(|time| time.as_secs_f64());
        assert_eq!(seconds("60"), Some(60.0));
        assert_eq!(seconds("1h 30m"), Some(5400.0));
        assert_eq!(seconds("500ms"), Some(0.5));
        assert_eq!((seconds("x"), seconds(""), seconds("-1s")), (None, None, None));
        assert_eq!((size("8"), size("64k"), size("2M")), (Some(8), Some(65_536), Some(2 << 20)));
        assert_eq!((size(""), size("m"), size("99999999999999g")), (None, None, None));
    }
}
