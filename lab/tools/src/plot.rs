//! Plots as SVG text: the same data gives the same bytes.
//!
//! plotters does the drawing. This file has the plot types that papers in this field use, an axis
//! with round ticks in both scales, and one palette. No font is measured or embedded, so plots do
//! not depend on the fonts installed on a machine.

mod axis;
mod category;
mod curve;
mod heatmap;
mod scatter;

use anyhow::anyhow;
use plotters::coord::Shift;
use plotters::prelude::*;

pub use category::{bars, boxes};
pub use curve::{Line, cdf, lines, points, timeline};
pub use heatmap::heatmap;
pub use scatter::scatter;

/// A plot with its file's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figure {
    /// Its name, without the ending.
    pub name: String,
    /// Its title.
    pub title: String,
    /// The SVG text.
    pub svg: String,
}

impl Figure {
    /// A plot whose file name is built from `parts`, which may contain any characters.
    #[must_use]
    pub fn new(parts: &[&str], title: String, svg: String) -> Figure {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
        let name = parts.join("-").chars().map(plain).collect();
        Figure { name, title, svg }
    }
}

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The position on the other axis; unused in bars.
    pub x: f64,
    /// The value.
    pub mean: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Okabe and Ito's colours, which most colour-blind readers tell apart, and darker ones of them.
const PALETTE: [RGBColor; 12] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(213, 94, 0),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(240, 228, 66),
    RGBColor(0, 0, 0),
    RGBColor(0, 68, 107),
    RGBColor(138, 95, 0),
    RGBColor(0, 95, 69),
    RGBColor(128, 128, 128),
];

fn colour(i: usize) -> RGBColor {
    PALETTE[i % PALETTE.len()]
}

const TITLE: u32 = 16;
const TEXT: u32 = 12;

fn text(size: u32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&BLACK)
}

/// Pixels that a text takes, roughly: glyphs of a sans-serif are a little over half as wide as
/// they are high.
fn width(text: &str, size: u32) -> u32 {
    (text.chars().count() as f64 * f64::from(size) * 0.58) as u32 + 8
}

/// A canvas with a title, drawn on by `draw`.
fn canvas(
    size: (u32, u32),
    title: &str,
    draw: impl FnOnce(&Area<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        root.draw(&Text::new(title.to_owned(), (12, 10), text(TITLE))).map_err(failed)?;
        draw(&root.margin(36, 4, 4, 12))?;
        root.present().map_err(failed)?;
    }
    Ok(svg)
}

/// Plots below each other, as one picture.
///
/// # Errors
/// A plot whose size is unknown.
pub fn stack(plots: &[String]) -> anyhow::Result<String> {
    let (mut inside, mut most, mut y) = (String::new(), 0, 0);
    for svg in plots {
        let start = svg.find("<svg ").ok_or_else(|| anyhow!("plot: no svg"))?;
        let (width, height) = (number(svg, "width=\"")?, number(svg, "height=\"")?);
        inside.push_str(&format!("<svg y=\"{y}\" "));
        inside.push_str(svg[start + "<svg ".len()..].trim_end());
        inside.push('\n');
        (most, y) = (most.max(width), y + height);
    }
    let size = format!("width=\"{most}\" height=\"{y}\" viewBox=\"0 0 {most} {y}\"");
    Ok(format!("<svg {size} xmlns=\"http://www.w3.org/2000/svg\">\n{inside}</svg>\n"))
}

/// The number after the first `name` in `svg`.
fn number(svg: &str, name: &str) -> anyhow::Result<u32> {
    let digits = svg.split_once(name).map_or("", |(_, rest)| rest);
    let digits: String = digits.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().map_err(|_| anyhow!("plot: {name} is missing"))
}

fn failed<E: std::fmt::Display>(error: E) -> anyhow::Error {
    anyhow!("plot: {error}")
}

#[cfg(test)]
mod tests;
