//! Requests in time, MFS over each of the others, over the use of the busiest card: a figure for
//! each granularity of KV, since their gains differ.

use meridian_tools::cluster::file::KvLayers;
use meridian_tools::plot::{self, Figure, Line, Point};
use meridian_tools::stats::Mean;

use super::Load;

impl Load<'_> {
    /// A figure for each granularity.
    ///
    /// # Errors
    /// Those of the plot.
    pub(super) fn figures(&self) -> anyhow::Result<Vec<Figure>> {
        self.spec.grid.kv_layers.iter().map(|layers| self.figure(*layers)).collect()
    }

    /// A set of points for each rival and for each of the static classes.
    fn figure(&self, layers: KvLayers) -> anyhow::Result<Figure> {
        let others = self.spec.rivals.iter().chain(&self.spec.classes);
        let spots: Vec<usize> =
            (0..self.spots.len()).filter(|nth| self.spots[*nth].layers == layers).collect();
        let line = |name: &String| -> Option<Line> {
            let other = self.sweep.place(name)?;
            let point = |spot: &usize| {
                let Mean { mean, low, high } = self.in_time(*spot, other)?;
                Some(Point { x: self.used(*spot)?.mean, mean, low, high })
            };
            Some((name.clone(), spots.iter().filter_map(point).collect()))
        };
        let lines: Vec<Line> = others.filter_map(line).collect();
        let shown = layers.to_string();
        let title = format!("Requests in time, layers per KV flow: {shown} (simulated)");
        let labels =
            ["use of the busiest card under fair sharing, %", "in time, mfs over the other"];
        let svg = plot::points(&title, labels, &lines, [false, true])?;
        Ok(Figure::new(&["gain", "layers", &shown], title, svg))
    }
}
