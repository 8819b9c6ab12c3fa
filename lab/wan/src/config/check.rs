//! Checks a WAN's configuration: reports all problems at once, with field and remedy.

use std::time::Duration;

use super::{LinkSpec, RouteSpec, VERSION, Wan};
use meridian_protocol::units::Span;

/// A segment of TCP: no window is smaller.
const SEGMENT: u64 = 1460;
/// Most bytes of one read.
const LEAST_BUFFER: u64 = 64 << 10;
/// Most bytes that a connection may buffer, so that a few of them fit into memory.
const MOST_BUFFER: u64 = 1 << 30;
/// A longer delay is probably a wrong unit.
const MOST_DELAY: Duration = Duration::from_secs(60);
/// The remedy for a delay that is too long.
pub const DELAY_REMEDY: &str = "use a minute or less";

impl Wan {
    /// Every problem of the configuration.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut check = |ok: bool, text: String| {
            if !ok {
                found.push(text);
            }
        };
        check(
            self.version == VERSION,
            format!("version: {} is unknown; use {VERSION}", self.version),
        );
        check(
            !self.routes.is_empty(),
            "routes: is empty; add a route with from, to and target".to_owned(),
        );
        self.check_bounds(&mut check);
        for (i, link) in self.links.iter().enumerate() {
            self.check_link(i, link, &mut check);
        }
        for (i, route) in self.routes.iter().enumerate() {
            self.check_route(i, route, &mut check);
        }
        found
    }

    fn check_bounds(&self, check: &mut impl FnMut(bool, String)) {
        let (start, most, buffer) = (self.window.start.0, self.window.most.0, self.buffer.0);
        check(
            start >= SEGMENT,
            format!("window.start: {start}B is below one segment; use {SEGMENT}B or more"),
        );
        check(
            most >= start,
            format!(
                "window.most: {most}B is below window.start ({start}B); use the same size or a larger one"
            ),
        );
        check(
            (LEAST_BUFFER..=MOST_BUFFER).contains(&buffer),
            format!("buffer: {buffer}B is out of range; use 64KiB to 1GiB"),
        );
        check(most <= MOST_BUFFER, format!("window.most: {most}B is too large; use 1GiB or less"));
        check(
            self.connections > 0,
            "connections: 0 would refuse every connection; use 1 or more".to_owned(),
        );
    }

    fn check_link(&self, i: usize, link: &LinkSpec, check: &mut impl FnMut(bool, String)) {
        let LinkSpec { from, to, .. } = link;
        check_regions(&format!("links[{i}]"), from, to, check);
        let twin = self.links[..i].iter().position(|l| l.from == *from && l.to == *to);
        if let Some(j) = twin {
            check(false, format!("links[{i}]: {from} to {to} is also links[{j}]; remove one"));
        }
        for (name, span) in [("delay", link.delay), ("jitter", Some(link.jitter))] {
            if let Some(span) = span {
                check(
                    is_delay(span),
                    format!("links[{i}].{name}: {:?} is too long; {DELAY_REMEDY}", span.0),
                );
            }
        }
        check(
            link.delay.is_some() || super::known_delay(from, to).is_some(),
            format!("links[{i}].delay: is unknown from {from} to {to}; set it, as in 40ms"),
        );
    }

    fn check_route(&self, i: usize, route: &RouteSpec, check: &mut impl FnMut(bool, String)) {
        let RouteSpec { from, to, listen, .. } = route;
        check_regions(&format!("routes[{i}]"), from, to, check);
        let name = route.name();
        check(
            is_name(&name),
            format!("routes[{i}].name: `{name}` is not a name; use letters, digits, - and _"),
        );
        let twin = self.routes[..i].iter().position(|r| r.name() == name);
        if let Some(j) = twin {
            check(
                false,
                format!(
                    "routes[{i}].name: {name} is also the name of routes[{j}]; use another one"
                ),
            );
        }
        let uses = |r: &&RouteSpec| r.listen == *listen && listen.port() != 0;
        if self.routes[..i].iter().any(|r| uses(&r))
            || (*listen == self.admin && listen.port() != 0)
        {
            check(false, format!("routes[{i}].listen: {listen} is used twice; use another port"));
        }
        check(
            route.target != Some(*listen),
            format!(
                "routes[{i}].target: {listen} is the route itself; use the address of the program behind it"
            ),
        );
        if let Some(target) = route.target {
            check(
                target.port() != 0,
                format!(
                    "routes[{i}].target: {target} has no port; add the port of the program behind it"
                ),
            );
        }
        if from != to {
            for (a, b) in [(from, to), (to, from)] {
                let is_given = self.links.iter().any(|l| l.from == *a && l.to == *b);
                check(
                    is_given || super::known_delay(a, b).is_some(),
                    format!(
                        "routes[{i}]: the delay from {a} to {b} is unknown; add it under links"
                    ),
                );
            }
        }
    }
}

fn check_regions(place: &str, from: &str, to: &str, check: &mut impl FnMut(bool, String)) {
    for (field, name) in [("from", from), ("to", to)] {
        check(
            is_name(name),
            format!("{place}.{field}: `{name}` is not a region; use letters, digits, - and _"),
        );
    }
    check(from != to, format!("{place}.to: {to} is the same region as `from`; use another one"));
}

/// Names are part of the admin port's paths.
fn is_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !name.is_empty() && name.len() <= 64 && name.chars().all(fits)
}

/// Whether a delay or a jitter is plausible.
#[must_use]
pub fn is_delay(span: Span) -> bool {
    span.0 <= MOST_DELAY
}
