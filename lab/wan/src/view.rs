//! The relay's state in the admin port's terms.

use std::sync::atomic::Ordering;

use crate::config::{self as wire, Rate};
use meridian_protocol::units::Span;

use super::LinkState;
use super::routes::{Directed, Route, Shared};

pub(super) fn state(shared: &Shared) -> wire::State {
    wire::State {
        uptime_s: shared.uptime().as_secs_f64(),
        links: shared.links().iter().map(link).collect(),
        routes: shared.routes.iter().map(|one| route(one)).collect(),
    }
}

fn link(Directed { from, to, link }: &Directed) -> wire::Link {
    let (figures, counts) = (link.figures(), link.counts);
    wire::Link {
        from: from.clone(),
        to: to.clone(),
        state: to_wire(link.state()),
        delay: Span(figures.delay),
        jitter: Span(figures.jitter),
        rate: Rate(figures.rate),
        open: counts.open,
        opened: counts.opened,
        refused: counts.refused,
        resets: counts.resets,
        bytes_in: counts.bytes_in,
        bytes_out: counts.bytes_out,
        held: counts.held(),
        dropped: counts.dropped,
    }
}

fn route(route: &Route) -> wire::Route {
    wire::Route {
        name: route.name.clone(),
        from: route.from.clone(),
        to: route.to.clone(),
        listen: route.listen,
        target: route.target(),
        open: route.open.load(Ordering::Relaxed),
    }
}

fn to_wire(state: LinkState) -> wire::LinkState {
    match state {
        LinkState::Up => wire::LinkState::Up,
        LinkState::Cut => wire::LinkState::Cut,
        LinkState::Down => wire::LinkState::Down,
    }
}

pub(super) fn from_wire(state: wire::LinkState) -> LinkState {
    match state {
        wire::LinkState::Up => LinkState::Up,
        wire::LinkState::Cut => LinkState::Cut,
        wire::LinkState::Down => LinkState::Down,
    }
}
