//! The regions of the planet: cities with data centres, by location and time zone.
//!
//! Round trips follow from distances by the fit that `experiments/common.yaml` uses where none is
//! published: 9.3 ms + 0.0161 ms/km. A region's day is the published one of the nearest time zone
//! (`meridian_workload::Diurnal`), on its own clock; the regions of a zone share its weight.

use meridian_tools::load::Place;
use meridian_workload::{Diurnal, DiurnalRegion};

/// A city: name, continent, degrees north, degrees east, hours ahead of UTC.
type City = (&'static str, &'static str, f64, f64, f64);

/// In an order that mixes the continents, so that the first few are a smaller planet.
pub(super) const CITIES: [City; 30] = [
    ("ashburn", "north-america", 39.0, -77.5, -5.0),
    ("frankfurt", "europe", 50.1, 8.7, 1.0),
    ("tokyo", "asia", 35.7, 139.7, 9.0),
    ("portland", "north-america", 45.5, -122.7, -8.0),
    ("mumbai", "asia", 19.1, 72.9, 5.5),
    ("sao-paulo", "south-america", -23.5, -46.6, -3.0),
    ("sydney", "oceania", -33.9, 151.2, 10.0),
    ("dublin", "europe", 53.3, -6.3, 0.0),
    ("singapore", "asia", 1.35, 103.8, 8.0),
    ("columbus", "north-america", 40.0, -83.0, -5.0),
    ("cape-town", "africa", -33.9, 18.4, 2.0),
    ("dubai", "asia", 25.2, 55.3, 4.0),
    ("san-jose", "north-america", 37.3, -121.9, -8.0),
    ("london", "europe", 51.5, -0.1, 0.0),
    ("seoul", "asia", 37.6, 127.0, 9.0),
    ("montreal", "north-america", 45.5, -73.6, -5.0),
    ("paris", "europe", 48.9, 2.35, 1.0),
    ("hong-kong", "asia", 22.3, 114.2, 8.0),
    ("santiago", "south-america", -33.4, -70.7, -4.0),
    ("stockholm", "europe", 59.3, 18.1, 1.0),
    ("osaka", "asia", 34.7, 135.5, 9.0),
    ("dallas", "north-america", 32.8, -96.8, -6.0),
    ("milan", "europe", 45.5, 9.2, 1.0),
    ("hyderabad", "asia", 17.4, 78.5, 5.5),
    ("melbourne", "oceania", -37.8, 145.0, 10.0),
    ("calgary", "north-america", 51.0, -114.1, -7.0),
    ("zurich", "europe", 47.4, 8.5, 1.0),
    ("jakarta", "asia", -6.2, 106.8, 7.0),
    ("tel-aviv", "asia", 32.1, 34.8, 2.0),
    ("madrid", "europe", 40.4, -3.7, 1.0),
];

/// Round trip within a region, ms.
const WITHIN_MS: f64 = 1.0;
/// The fit of round trips over distance.
const FIXED_MS: f64 = 9.3;
const MS_PER_KM: f64 = 0.0161;

/// Round trips between the first `regions` cities, ms.
pub(super) fn rtt_ms(regions: usize) -> Vec<Vec<f64>> {
    let place = |city: &City| Place { latitude: city.2, longitude: city.3 };
    let rtt = |a: usize, b: usize| match a == b {
        true => WITHIN_MS,
        false => FIXED_MS + MS_PER_KM * place(&CITIES[a]).distance_km(place(&CITIES[b])),
    };
    (0..regions).map(|a| (0..regions).map(|b| rtt(a, b)).collect()).collect()
}

/// The days of the first `regions` cities, from `start_hour` (UTC) on.
pub(super) fn days(regions: usize, start_hour: f64) -> Diurnal {
    let published = Diurnal::published();
    let zones: Vec<usize> =
        CITIES[..regions].iter().map(|city| nearest(&published.regions, city.4)).collect();
    let share = |zone: usize| zones.iter().filter(|z| **z == zone).count() as f64;
    let day = |(city, zone): (&City, &usize)| DiurnalRegion {
        name: city.0,
        utc_offset: city.4,
        weight: published.regions[*zone].weight / share(*zone),
        ..published.regions[*zone]
    };
    let mut all: Vec<_> = CITIES.iter().zip(&zones).map(day).collect();
    // Without all zones, the weights are scaled to the same load.
    let total: f64 = all.iter().map(|region| region.weight).sum();
    all.iter_mut().for_each(|region| region.weight /= total);
    Diurnal { regions: all, start_hour, ..published }
}

/// The published region with the nearest time zone, around the globe.
fn nearest(published: &[DiurnalRegion], offset: f64) -> usize {
    let away = |zone: &DiurnalRegion| {
        let hours = (zone.utc_offset - offset).abs();
        hours.min(24.0 - hours)
    };
    let at =
        (0..published.len()).min_by(|a, b| away(&published[*a]).total_cmp(&away(&published[*b])));
    at.expect("there are published regions")
}

#[cfg(test)]
mod tests {
    use super::*;

    // The fit is within a third of the published round trips between Washington, Frankfurt and
    // Tokyo; a region is near itself.
    #[test]
    fn round_trips() {
        let rtt = rtt_ms(3);
        for (a, b, published) in [(0, 1, 92.0), (0, 2, 167.0), (1, 2, 230.0)] {
            assert!((rtt[a][b] / published - 1.0).abs() < 0.34, "{a} {b} {}", rtt[a][b]);
        }
        assert!(rtt.iter().enumerate().all(|(at, row)| row[at] < 2.0));
    }

    // For any number of regions the mean of a day is the whole load, and peaks are at different
    // hours.
    #[test]
    fn loads() {
        for regions in [1, 5, 30] {
            let days = days(regions, 0.0);
            let mean = (0..96).map(|q| days.total(f64::from(q) / 4.0)).sum::<f64>() / 96.0;
            assert!((mean - 1.0).abs() < 1e-3, "{regions}: {mean}");
        }
        let days = days(30, 0.0);
        let peak = |region| {
            (0..24).max_by(|a, b| {
                let rate = |hour: i32| days.rate(region, f64::from(hour));
                rate(*a).total_cmp(&rate(*b))
            })
        };
        assert_eq!((peak(0), peak(2)), (Some(20), Some(6)));
    }
}
