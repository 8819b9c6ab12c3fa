//! Draws the flows at a port over time, with their reasons, as SVG text.
//!
//! Time goes to the right; the height is the port's rate, stacked by precedence with the first at
//! the bottom. Colours are stages, and a tooltip on a box shows its owner and the reason for its
//! place. The SVG is written by hand, since a plotting library has no such box.

use std::fmt::Write;

use meridian_base::Time;
use meridian_flow::Stage;
use meridian_sim::cluster::{Holding, Slice};

/// The contents of a timeline.
pub struct Timeline<'a> {
    /// The policy.
    pub policy: &'a str,
    /// The port's name.
    pub port: &'a str,
    /// Its rate, bytes a second.
    pub rate: f64,
    /// Its start and end.
    pub window: (Time, Time),
    /// The recorded slices.
    pub slices: &'a [Slice],
    /// The owner of a flow.
    pub who: &'a dyn Fn(&Holding) -> String,
}

const WIDTH: f64 = 1160.0;
const LEFT: f64 = 56.0;
const TOP: f64 = 64.0;
const HEIGHT: f64 = 220.0;
/// Minimum width of a box with text, and width of one letter.
const WORDS: f64 = 34.0;
const LETTER: f64 = 6.2;

impl Timeline<'_> {
    /// The plot.
    #[must_use]
    pub fn svg(&self) -> String {
        let mut svg = String::new();
        let (wide, high) = (WIDTH + LEFT + 24.0, TOP + HEIGHT + 48.0);
        let _ = writeln!(
            svg,
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" font-family="sans-serif" font-size="11"><rect width="100%" height="100%" fill="white"/>"#,
        );
        let title =
            format!("{}: who had {} ({:.0} Gb/s)", self.policy, self.port, self.rate / 125e6);
        let _ = writeln!(svg, r#"<text x="12" y="20" font-size="15">{}</text>"#, plain(&title));
        self.legend(&mut svg);
        for row in self.rows() {
            self.draw(&mut svg, &row);
        }
        self.axis(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    /// Boxes: one for each interval in which a flow's place and rate did not change.
    fn rows(&self) -> Vec<TimelineRow> {
        let mut rows: Vec<TimelineRow> = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        for slice in self.slices {
            let mut below = 0.0;
            let mut still = Vec::new();
            for holding in slice.holders.iter().filter(|one| one.rate > 0.0) {
                let share = holding.rate / self.rate;
                let same = |nth: &&usize| {
                    let row = &rows[**nth];
                    row.to == slice.from && row.holding == *holding && row.below == below
                };
                match open.iter().find(same).copied() {
                    Some(nth) => {
                        rows[nth].to = slice.to;
                        still.push(nth);
                    }
                    None => {
                        still.push(rows.len());
                        let (from, to) = (slice.from, slice.to);
                        rows.push(TimelineRow { from, to, below, share, holding: *holding });
                    }
                }
                below += share;
            }
            open = still;
        }
        rows
    }

    fn x(&self, at: Time) -> f64 {
        let (from, to) = self.window;
        let share = at.since(from).as_secs_f64() / to.since(from).as_secs_f64().max(1e-12);
        LEFT + share.min(1.0) * WIDTH
    }

    fn draw(&self, svg: &mut String, row: &TimelineRow) {
        let (x, wide) = (self.x(row.from), self.x(row.to) - self.x(row.from));
        let (high, y) = (row.share * HEIGHT, TOP + HEIGHT * (1.0 - row.below - row.share));
        let who = (self.who)(&row.holding);
        let _ = write!(
            svg,
            r##"<rect x="{x:.2}" y="{y:.2}" width="{wide:.2}" height="{high:.2}" fill="{}" stroke="white" stroke-width="0.3"><title>{}</title></rect>"##,
            colour(row.holding.stage),
            plain(&format!(
                "{who}, level {}: {}; {:.1} Gb/s for {:.3} ms from {:.3} ms",
                row.holding.level,
                row.holding.why,
                row.holding.rate / 125e6,
                row.to.since(row.from).as_secs_f64() * 1e3,
                row.from.since(self.window.0).as_secs_f64() * 1e3,
            )),
        );
        let words = format!("{who}: {}", row.holding.why);
        let fits = (wide / LETTER) as usize;
        if wide >= WORDS && high >= 12.0 {
            let shown: String = words.chars().take(fits).collect();
            let (x, y) = (x + 2.0, y + high / 2.0 + 4.0);
            let _ = write!(svg, r#"<text x="{x:.2}" y="{y:.2}">{}</text>"#, plain(&shown));
        }
        svg.push('\n');
    }

    fn legend(&self, svg: &mut String) {
        let of = [Stage::Reuse, Stage::Collective, Stage::Handoff];
        for (nth, stage) in of.into_iter().enumerate() {
            let x = LEFT + 170.0 * nth as f64;
            let words = match stage {
                Stage::Reuse => "reuse (stage 1)",
                Stage::Collective => "collective (stage 2)",
                Stage::Handoff => "handoff (stage 3)",
            };
            let _ = writeln!(
                svg,
                r#"<rect x="{x}" y="34" width="12" height="12" fill="{}"/><text x="{}" y="44">{words}</text>"#,
                colour(stage),
                x + 18.0,
            );
        }
    }

    fn axis(&self, svg: &mut String) {
        let (from, to) = self.window;
        let span = to.since(from).as_secs_f64() * 1e3;
        let bottom = TOP + HEIGHT;
        for nth in 0..=10 {
            let x = LEFT + WIDTH * f64::from(nth) / 10.0;
            let ms = span * f64::from(nth) / 10.0;
            let _ = writeln!(
                svg,
                r#"<path d="M{x:.1} {bottom}v5" stroke="black"/><text x="{x:.1}" y="{}" text-anchor="middle">{ms:.1}</text>"#,
                bottom + 18.0,
            );
        }
        let _ = writeln!(
            svg,
            r#"<path d="M{LEFT} {TOP}V{bottom}H{}" stroke="black" fill="none"/><text x="{}" y="{}" text-anchor="middle">ms from {:.3} s</text><text x="8" y="{}">share</text><text x="{}" y="{}" text-anchor="end">1</text>"#,
            LEFT + WIDTH,
            LEFT + WIDTH / 2.0,
            bottom + 36.0,
            from.as_secs_f64(),
            TOP + HEIGHT / 2.0,
            LEFT - 6.0,
            TOP + 8.0,
        );
    }
}

/// An interval of one flow without a change.
struct TimelineRow {
    from: Time,
    to: Time,
    below: f64,
    share: f64,
    holding: Holding,
}

/// The owner of a flow on a cluster.
#[must_use]
pub fn who(holding: &Holding) -> String {
    let Holding { stage, owner, layer, .. } = holding;
    match stage {
        Stage::Collective => format!("replica {owner} layer {layer}"),
        _ => format!("request {owner} layer {layer}"),
    }
}

fn colour(stage: Stage) -> &'static str {
    match stage {
        Stage::Reuse => "#56b4e9",
        Stage::Collective => "#e69f00",
        Stage::Handoff => "#8fc7a3",
    }
}

fn plain(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
