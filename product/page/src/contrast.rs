//! The contrast of the page's colours, by WCAG 2.2: 4.5 for text, 3 for graphics and focus rings.
//!
//! The colours are read from base.css, where each has the form `light-dark(#rrggbb, #rrggbb)`.

/// Text colours, and the surfaces that they are used on.
const TEXTS: &[&str] = &["ink", "soft", "accent", "good", "warn", "bad"];
const SURFACES: &[&str] = &["ground", "surface", "raised"];
/// Colours of lines, bars, marks and focus rings.
const GRAPHICS: &[&str] =
    &["series-1", "series-2", "series-3", "series-4", "series-5", "series-6", "focus", "edge"];
/// Colours of text on a coloured ground.
const ON: &[(&str, &str)] =
    &[("on-good", "good-fill"), ("on-warn", "warn-fill"), ("on-bad", "bad-fill")];

/// A colour's light and dark value.
fn colour(name: &str) -> [[f64; 3]; 2] {
    let css = include_str!("../assets/base.css");
    let mark = format!("--{name}: light-dark(");
    let rest = css.split(&mark).nth(1).unwrap_or_else(|| panic!("base.css has no --{name}"));
    let values = rest.split(')').next().unwrap_or_default();
    let mut both = values.split(',').map(|hex| {
        let hex = hex.trim().trim_start_matches('#');
        let channel = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("a hex colour");
        [0, 2, 4].map(|at| f64::from(channel(at)) / 255.0)
    });
    [both.next(), both.next()].map(|one| one.unwrap_or_else(|| panic!("--{name}: {values}")))
}

fn luminance(colour: [f64; 3]) -> f64 {
    let linear =
        colour.map(|c| if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) });
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

fn contrasts(a: &str, b: &str) -> [f64; 2] {
    let (a, b) = (colour(a), colour(b));
    [0, 1].map(|theme| {
        let (a, b) = (luminance(a[theme]), luminance(b[theme]));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    })
}

fn check(front: &str, back: &str, least: f64) {
    for (theme, found) in ["light", "dark"].iter().zip(contrasts(front, back)) {
        assert!(found >= least, "{theme}: --{front} on --{back} has {found:.2}, under {least}");
    }
}

// Every text colour is readable on every surface, in both themes, and every graphic is visible.
#[test]
fn colours_have_contrast() {
    for surface in SURFACES {
        TEXTS.iter().for_each(|text| check(text, surface, 4.5));
    }
    for surface in ["surface", "ground"] {
        GRAPHICS.iter().for_each(|graphic| check(graphic, surface, 3.0));
    }
    ON.iter().for_each(|(text, fill)| check(text, fill, 4.5));
}

// The formula: black on white has 21, a colour on itself 1.
#[test]
fn the_formula() {
    let ratio = |a: [f64; 3], b: [f64; 3]| (luminance(a) + 0.05) / (luminance(b) + 0.05);
    assert!((ratio([1.0; 3], [0.0; 3]) - 21.0).abs() < 1e-9);
    assert!((ratio([0.5; 3], [0.5; 3]) - 1.0).abs() < 1e-9);
}
