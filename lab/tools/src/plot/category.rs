//! Plots with a row for each system: bars with intervals, and boxes as in SkyWalker's figures.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::dist::Dist;
use crate::plot::axis::Axis;
use crate::plot::{Area, Point, TEXT, canvas, colour, failed, text, width};

/// Height of a row.
const ROW: u32 = 30;

/// The plane that rows are drawn on: values to the right, rows from the top.
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Axis, Axis>>;

/// A bar for each name, with its interval.
///
/// # Errors
/// Those of the library.
pub fn bars(title: &str, label: &str, rows: &[(String, Point)]) -> anyhow::Result<String> {
    let values = rows.iter().flat_map(|(_, p)| [p.mean, p.high, p.low]);
    let axis = Axis::over(values, false);
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    draw(title, label, &names, &axis, |plane| {
        for (i, (_, p)) in rows.iter().enumerate() {
            let y = middle(i, rows.len());
            let bar = [(0.0, y - 0.32), (p.mean, y + 0.32)];
            plane.draw_series([Rectangle::new(bar, colour(i).filled())]).map_err(failed)?;
            let whisker = vec![(p.low, y), (p.high, y)];
            plane.draw_series([PathElement::new(whisker, BLACK)]).map_err(failed)?;
            let ends = [p.low, p.high]
                .map(|x| PathElement::new(vec![(x, y - 0.12), (x, y + 0.12)], BLACK));
            plane.draw_series(ends).map_err(failed)?;
        }
        Ok(())
    })
}

/// A box for each name: P25 to P75 with the median in red, whiskers to P10 and P90, a triangle at
/// the mean.
///
/// # Errors
/// Those of the library.
pub fn boxes(
    title: &str,
    label: &str,
    rows: &[(String, Dist)],
    log: bool,
) -> anyhow::Result<String> {
    let values = rows.iter().flat_map(|(_, d)| [d.p(10), d.p(90), d.mean]);
    let axis = Axis::over(values, log);
    let names: Vec<&str> = rows.iter().map(|(name, _)| name.as_str()).collect();
    draw(title, label, &names, &axis, |plane| {
        for (i, (_, d)) in rows.iter().enumerate() {
            let y = middle(i, rows.len());
            let line = |from: (f64, f64), to: (f64, f64), style: ShapeStyle| {
                PathElement::new(vec![from, to], style)
            };
            let (half, cap) = (0.28, 0.14);
            let body = [(d.p(25), y - half), (d.p(75), y + half)];
            plane
                .draw_series([Rectangle::new(body, colour(i).mix(0.35).filled())])
                .map_err(failed)?;
            plane.draw_series([Rectangle::new(body, BLACK)]).map_err(failed)?;
            let black: ShapeStyle = BLACK.into();
            let parts = [
                line((d.p(10), y), (d.p(25), y), black),
                line((d.p(75), y), (d.p(90), y), black),
                line((d.p(10), y - cap), (d.p(10), y + cap), black),
                line((d.p(90), y - cap), (d.p(90), y + cap), black),
                line((d.p(50), y - half), (d.p(50), y + half), RED.stroke_width(2)),
            ];
            plane.draw_series(parts).map_err(failed)?;
            let mean = TriangleMarker::new((d.mean, y), -5, BLACK.filled());
            plane.draw_series([mean]).map_err(failed)?;
        }
        Ok(())
    })
}

/// Row `i` of `n` on the axis, from the top.
fn middle(i: usize, n: usize) -> f64 {
    n as f64 - i as f64 - 0.5
}

fn draw(
    title: &str,
    label: &str,
    names: &[&str],
    axis: &Axis,
    rows: impl FnOnce(&mut Plane<'_, '_>) -> anyhow::Result<()>,
) -> anyhow::Result<String> {
    let left = names.iter().map(|name| width(name, TEXT)).max().unwrap_or(0) + 8;
    let height = 90 + ROW * names.len() as u32;
    canvas((720, height), title, |area| {
        let mut plane = ChartBuilder::on(area)
            .margin_left(left)
            .margin_right(24)
            .x_label_area_size(40)
            .build_cartesian_2d(axis.clone(), Axis::names(names.len()))
            .map_err(failed)?;
        plane
            .configure_mesh()
            .disable_y_mesh()
            .x_desc(label)
            .x_label_style(text(TEXT))
            .axis_desc_style(text(TEXT))
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(failed)?;
        rows(&mut plane)?;
        for (i, name) in names.iter().enumerate() {
            let (x, y) = plane.backend_coord(&(axis.low(), middle(i, names.len())));
            write(area, name, (x - 8, y))?;
        }
        Ok(())
    })
}

/// Text that ends at a place of the whole canvas.
fn write(area: &Area<'_>, words: &str, at: (i32, i32)) -> anyhow::Result<()> {
    let whole: DrawingArea<SVGBackend<'_>, Shift> = area.strip_coord_spec();
    let (range_x, range_y) = whole.get_pixel_range();
    let at = (at.0 - range_x.start, at.1 - range_y.start);
    let style = text(TEXT).pos(Pos::new(HPos::Right, VPos::Center));
    whole.draw(&Text::new(words.to_owned(), at, style)).map_err(failed)
}
