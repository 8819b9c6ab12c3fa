//! Points with the line through them.

use plotters::prelude::*;

use crate::fit::Line;
use crate::plot::axis::Axis;
use crate::plot::{TEXT, canvas, colour, failed, text};

/// Points, our line and a published one as (intercept, slope).
///
/// # Errors
/// Those of the library.
pub fn scatter(
    title: &str,
    labels: [&str; 2],
    points: &[(f64, f64)],
    ours: Option<Line>,
    published: Option<(f64, f64)>,
) -> anyhow::Result<String> {
    let most = points.iter().map(|p| p.0).fold(0.0, f64::max);
    let lines = [ours.map(|l| (l.intercept, l.slope)), published];
    let ends = || lines.iter().flatten().flat_map(|(a, b)| [*a, a + b * most]);
    let x = Axis::over(points.iter().map(|p| p.0), false);
    let y = Axis::over(points.iter().map(|p| p.1).chain(ends()), false);
    canvas((720, 420), title, |area| {
        let mut plane = ChartBuilder::on(area)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .margin_right(12)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        plane
            .configure_mesh()
            .x_desc(labels[0])
            .y_desc(labels[1])
            .label_style(text(TEXT))
            .axis_desc_style(text(TEXT))
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(failed)?;
        let dots = points.iter().map(|at| Circle::new(*at, 3, colour(0).mix(0.5).filled()));
        plane.draw_series(dots).map_err(failed)?;
        for (i, (name, line)) in ["ours", "published"].iter().zip(lines).enumerate() {
            let Some((intercept, slope)) = line else { continue };
            let path = vec![(0.0, intercept), (most, intercept + slope * most)];
            let style = colour(i + 2).stroke_width(2);
            plane.draw_series([PathElement::new(path, style)]).map_err(failed)?;
            let words = format!("{name}: {intercept:.2} + {slope:.4} x");
            let at = (72, 4 + 18 * i as i32);
            area.draw(&PathElement::new(vec![(at.0, at.1 + 6), (at.0 + 18, at.1 + 6)], style))
                .map_err(failed)?;
            area.draw(&Text::new(words, (at.0 + 24, at.1), text(TEXT))).map_err(failed)?;
        }
        Ok(())
    })
}
