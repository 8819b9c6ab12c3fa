//! The last hour of each region, and the state in the two forms that pages get.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use meridian_protocol::admin::Point;

/// Points kept for each region: an hour of 10 s.
pub(super) const KEPT: usize = 360;
/// The state as pages get it.
#[derive(Clone, Default)]
pub(super) struct Shown {
    /// With the points of the last hour.
    pub(super) whole: Bytes,
    /// With the newest points only.
    pub(super) newest: Bytes,
    /// The admin addresses of the regions' gateways.
    pub(super) admins: Arc<Vec<(String, String)>>,
}

/// The last hour of each region. It outlives the gateways, which lose theirs when they are killed.
#[derive(Default)]
pub(super) struct Hours(BTreeMap<String, BTreeMap<u64, Point>>);

impl Hours {
    pub(super) fn keep(&mut self, region: &str, points: Vec<Point>) {
        let own = self.0.entry(region.to_owned()).or_default();
        own.extend(points.into_iter().map(|point| (point.at_s, point)));
        while own.len() > KEPT {
            own.pop_first();
        }
    }

    /// The start of a region's newest point.
    pub(super) fn newest(&self, region: &str) -> u64 {
        self.0.get(region).and_then(|own| own.last_key_value()).map_or(0, |(at, _)| *at)
    }

    pub(super) fn last(&self, region: &str, most: usize) -> Vec<Point> {
        let own = self.0.get(region).into_iter().flat_map(BTreeMap::values);
        let skipped = own.clone().count().saturating_sub(most);
        own.skip(skipped).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // A point replaces its earlier version, and an hour is kept.
    #[test]
    fn an_hour_is_kept() {
        let mut hours = Hours::default();
        let point = |at_s: u64, held| Point { at_s, held, ..Point::default() };
        hours.keep("us", vec![point(10, 1), point(20, 1)]);
        hours.keep("us", vec![point(20, 7)]);
        assert_eq!(hours.last("us", 9).iter().map(|p| p.held).collect::<Vec<_>>(), [1, 7]);
        assert_eq!((hours.newest("us"), hours.newest("eu")), (20, 0));
        hours.keep("us", (3..1000).map(|n| point(10 * n, 0)).collect());
        assert_eq!((hours.last("us", 9999).len(), hours.last("us", 2)[1].at_s), (KEPT, 9990));
    }
}
