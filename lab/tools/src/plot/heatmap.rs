//! Heatmaps: pairwise similarity as a square of colours.

use plotters::prelude::*;

use crate::plot::{TEXT, canvas, failed, text};

/// A cell's side, at least; a large square is drawn smaller.
const SIDE: usize = 520;

/// A heatmap of `rows`, each as long as the others, from white at 0 to dark at the largest value.
///
/// # Errors
/// Those of the library.
pub fn heatmap(title: &str, label: &str, rows: &[Vec<f64>]) -> anyhow::Result<String> {
    let most = rows.iter().flatten().copied().fold(0.0, f64::max);
    let longest = rows.iter().map(Vec::len).max().unwrap_or(0).max(rows.len()).max(1);
    let side = (SIDE / longest).max(1) as i32;
    canvas((620, 640), title, |area| {
        let caption = format!("{label}: white 0, dark {most:.2}");
        area.draw(&Text::new(caption, (8, 0), text(TEXT))).map_err(failed)?;
        for (y, row) in rows.iter().enumerate() {
            for (x, value) in row.iter().enumerate().filter(|(_, v)| **v > 0.0) {
                let at = (8 + x as i32 * side, 24 + y as i32 * side);
                let cell = Rectangle::new([at, (at.0 + side, at.1 + side)], shade(*value, most));
                area.draw(&cell).map_err(failed)?;
            }
        }
        Ok(())
    })
}

/// From white to dark blue.
fn shade(value: f64, most: f64) -> ShapeStyle {
    let share = (value / most).clamp(0.0, 1.0);
    let mix = |light: f64, dark: f64| (light + (dark - light) * share).round() as u8;
    RGBColor(mix(255.0, 0.0), mix(255.0, 50.0), mix(255.0, 110.0)).filled()
}
