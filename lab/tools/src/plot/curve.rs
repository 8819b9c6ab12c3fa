//! Plots with a line for each system: distributions, dependence on a number, and states over time.

use plotters::prelude::*;

use crate::dist::Dist;
use crate::plot::axis::Axis;
use crate::plot::{Area, Point, TEXT, canvas, colour, failed, text, width};

/// A named line.
pub type Line = (String, Vec<Point>);

/// Cumulative distributions.
///
/// # Errors
/// Those of the library.
pub fn cdf(title: &str, label: &str, of: &[(String, Dist)], log: bool) -> anyhow::Result<String> {
    let lines: Vec<Line> = of
        .iter()
        .map(|(name, dist)| {
            let points = dist.percentiles().iter().enumerate();
            let point = |(p, v): (usize, &f64)| {
                let share = p as f64 / 100.0;
                Point { x: *v, mean: share, low: share, high: share }
            };
            (name.clone(), points.map(point).collect())
        })
        .collect();
    // The last percent may reach ten times as far as all the rest.
    let x = Axis::over(of.iter().flat_map(|(_, d)| [d.p(1), d.p(99)]), log);
    draw(title, [label, "share"], [x, Axis::exactly(0.0, 1.0)], &lines, Style::Line)
}

/// Values with intervals over a number.
///
/// # Errors
/// Those of the library.
pub fn lines(title: &str, labels: [&str; 2], lines: &[Line], log: bool) -> anyhow::Result<String> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let x = Axis::over(points().map(|p| p.x), false);
    let y = Axis::over(points().flat_map(|p| [p.low, p.high]), log);
    draw(title, labels, [x, y], lines, Style::Both)
}

/// Two values of several systems, each a point with the interval of the second; the points of a
/// name have one colour. `log` says which axes are logarithmic.
///
/// # Errors
/// Those of the library.
pub fn points(
    title: &str,
    labels: [&str; 2],
    of: &[Line],
    log: [bool; 2],
) -> anyhow::Result<String> {
    let points = || of.iter().flat_map(|(_, points)| points);
    let x = Axis::over(points().map(|p| p.x), log[0]);
    let y = Axis::over(points().flat_map(|p| [p.low, p.high]), log[1]);
    draw(title, labels, [x, y], of, Style::Points)
}

/// Values over time, in seconds.
///
/// # Errors
/// Those of the library.
pub fn timeline(title: &str, label: &str, lines: &[Line]) -> anyhow::Result<String> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let (start, end) =
        points().fold((f64::INFINITY, 0.0_f64), |(a, b), p| (a.min(p.x), b.max(p.x)));
    let x = if start.is_finite() { Axis::exactly(start, end) } else { Axis::exactly(0.0, 1.0) };
    let y = Axis::over(points().map(|p| p.mean), false);
    draw(title, ["time, s", label], [x, y], lines, Style::Line)
}

/// How the points of a line are drawn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    /// Connected.
    Line,
    /// Each with its interval.
    Points,
    /// Both.
    Both,
}

fn draw(
    title: &str,
    [x_label, y_label]: [&str; 2],
    [x, y]: [Axis; 2],
    lines: &[Line],
    style: Style,
) -> anyhow::Result<String> {
    let legend = lines.iter().map(|(name, _)| width(name, TEXT)).max().unwrap_or(0) + 36;
    canvas((640 + legend, 400), title, |area| {
        let (left, right) = area.split_horizontally(632);
        let mut plane = ChartBuilder::on(&left)
            .x_label_area_size(40)
            .y_label_area_size(60)
            .margin_right(12)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        plane
            .configure_mesh()
            .x_desc(x_label)
            .y_desc(y_label)
            .label_style(text(TEXT))
            .axis_desc_style(text(TEXT))
            .light_line_style(TRANSPARENT)
            .draw()
            .map_err(failed)?;
        for (i, (_, points)) in lines.iter().enumerate() {
            let line = points.iter().map(|p| (p.x, p.mean)).collect::<Vec<_>>();
            if style != Style::Points {
                let path = PathElement::new(line.clone(), colour(i).stroke_width(2));
                plane.draw_series([path]).map_err(failed)?;
            }
            if style == Style::Line {
                continue;
            }
            let dots = line.iter().map(|at| Circle::new(*at, 3, colour(i).filled()));
            plane.draw_series(dots).map_err(failed)?;
            let bar = |p: &Point| PathElement::new(vec![(p.x, p.low), (p.x, p.high)], colour(i));
            plane.draw_series(points.iter().map(bar)).map_err(failed)?;
        }
        names(&right, lines)
    })
}

fn names(area: &Area<'_>, lines: &[Line]) -> anyhow::Result<()> {
    for (i, (name, _)) in lines.iter().enumerate() {
        let y = 10 + 18 * i as i32;
        let stroke = colour(i).stroke_width(3);
        area.draw(&PathElement::new(vec![(0, y), (18, y)], stroke)).map_err(failed)?;
        let words = Text::new(name.clone(), (24, y - TEXT as i32 / 2), text(TEXT));
        area.draw(&words).map_err(failed)?;
    }
    Ok(())
}
