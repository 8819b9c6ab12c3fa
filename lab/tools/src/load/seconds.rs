//! Times on a command line.

use std::time::Duration;

/// A duration with its unit: 250ms, 15s, 2m, 6h.
///
/// # Errors
/// Text without a unit, or that is no time.
pub fn seconds(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{text}` has no unit; write 250ms, 15s, 2m or 6h")),
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| format!("`{text}` is not a time; write 250ms, 15s, 2m or 6h"))?;
    Duration::try_from_secs_f64(number * scale)
        .map_err(|_| format!("`{text}` is not a time; write 250ms, 15s, 2m or 6h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    // Durations have units, and only those we know.
    #[test]
    fn durations() {
        assert_eq!(seconds("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(seconds("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(seconds("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(seconds("6h"), Ok(Duration::from_secs(21_600)));
        for bad in ["5", "s", "-1s", "5d", "1e400s", ""] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
