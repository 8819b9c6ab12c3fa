//! Locations of clients and gateways: a client uses the nearest gateway, and the next nearest if no
//! byte of an answer arrived (GORGO, section 3.1).

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Mean radius of the earth, km.
const RADIUS: f64 = 6371.0;

/// A location on the earth, in degrees.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Place {
    /// North of the equator.
    pub latitude: f64,
    /// East of Greenwich.
    pub longitude: f64,
}

impl Place {
    /// Distance along the surface, km.
    #[must_use]
    pub fn distance_km(self, other: Place) -> f64 {
        let half = |a: f64, b: f64| libm::sin((b - a).to_radians() / 2.0);
        let (up, along) =
            (half(self.latitude, other.latitude), half(self.longitude, other.longitude));
        let level = libm::cos(self.latitude.to_radians()) * libm::cos(other.latitude.to_radians());
        let chord = up * up + level * along * along;
        2.0 * RADIUS * libm::asin(libm::sqrt(chord.clamp(0.0, 1.0)))
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Place, String> {
        let wanted =
            || format!("{text:?} is not a place: write LAT,LON in degrees, as in 50.1,8.7");
        let (latitude, longitude) = text.split_once(',').ok_or_else(wanted)?;
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wanted());
        let place = Place { latitude: number(latitude)?, longitude: number(longitude)? };
        let is_there =
            (-90.0..=90.0).contains(&place.latitude) && (-180.0..=180.0).contains(&place.longitude);
        if is_there { Ok(place) } else { Err(wanted()) }
    }
}

/// A gateway and its location.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// Its location.
    pub place: Place,
    /// Its address, without `/v1`.
    pub url: String,
}

impl FromStr for Site {
    type Err = String;

    fn from_str(text: &str) -> Result<Site, String> {
        let (place, url) = text
            .split_once('=')
            .filter(|(_, url)| !url.is_empty())
            .ok_or_else(|| format!("{text:?} is not a gateway: write LAT,LON=URL"))?;
        Ok(Site { place: place.parse()?, url: url.to_owned() })
    }
}

/// The gateways by their distance from `place`, nearest first; ties keep their order.
#[must_use]
pub fn nearest_first(sites: &[Site], place: Place) -> Vec<&Site> {
    let mut sorted: Vec<&Site> = sites.iter().collect();
    let away = |site: &Site| place.distance_km(site.place);
    sorted.sort_by(|a, b| away(a).total_cmp(&away(b)));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        text.parse().expect("is a place")
    }

    // Known distances within a percent, including over the date line.
    #[test]
    fn distances() {
        let (frankfurt, tokyo, ashburn) =
            (place("50.11,8.68"), place("35.68,139.69"), place("39.04,-77.49"));
        for (a, b, km) in [
            (frankfurt, tokyo, 9360.0),
            (frankfurt, ashburn, 6520.0),
            (tokyo, ashburn, 10_880.0),
            (place("0,179.5"), place("0,-179.5"), 111.2),
            (tokyo, tokyo, 0.0),
            (place("90,0"), place("-90,77"), 20_015.0),
        ] {
            assert!((a.distance_km(b) - km).abs() <= km * 0.01, "{a:?} {b:?} {}", a.distance_km(b));
            assert!((a.distance_km(b) - b.distance_km(a)).abs() < 1e-6);
        }
    }

    // Nearest first; an invalid location or gateway is reported with the expected form.
    #[test]
    fn order() {
        let sites = ["39.04,-77.49=http://us", "50.11,8.68=http://eu", "35.68,139.69=http://asia"]
            .map(|site| site.parse::<Site>().expect("is a gateway"));
        let from = |at: &str| -> Vec<String> {
            nearest_first(&sites, place(at)).iter().map(|site| site.url[7..].to_owned()).collect()
        };
        assert_eq!(from("48.86,2.35"), ["eu", "us", "asia"]);
        assert_eq!(from("34.05,-118.24"), ["us", "asia", "eu"]);
        assert_eq!(from("1.35,103.82"), ["asia", "eu", "us"]);
        for bad in ["50", "50,", "91,0", "0,181", "a,b", "NaN,0"] {
            assert!(bad.parse::<Place>().is_err(), "{bad}");
        }
        for bad in ["50,8", "50,8=", "http://eu", "91,0=http://eu"] {
            assert!(bad.parse::<Site>().is_err(), "{bad}");
        }
    }
}
