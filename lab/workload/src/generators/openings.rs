//! Openings: how often conversations share their first text with others.
//!
//! SkyWalker (section 3.2, Figure 5) measures the prefix similarity of two requests, `len(common
//! prefix) / min(len)`, within users, across users and across regions. Here a conversation opens
//! with at most one template: a global one, one of its region, or one of its user. Which kind it is
//! does not depend on lengths, so the similarity of two requests of different conversations is the
//! chance that their templates are the same, times `kappa`, the mean similarity of two that share
//! one:
//!
//! ```text
//! across regions           R = kappa global^2 / n
//! across users in a region A = R + kappa regional^2 / n
//! within a user            W = q S + (1 - q) (A + kappa personal^2 / m)
//! ```
//!
//! The n global templates are equally popular, as are the n of a region and the m of a user. q is
//! the share of a user's pairs that are within one conversation, S their mean similarity. kappa and
//! S follow from the lengths and are measured; the three shares are then solved for the published
//! figures. If the shares would exceed 1 in total, the personal one is cut first, and `similarity`
//! shows the values reached.

/// Targets of the solution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Targets {
    /// Mean similarity of requests of different regions.
    pub(crate) across_regions: f64,
    /// Mean similarity of requests of different users of one region.
    pub(crate) across_users: f64,
    /// Mean similarity within users over the mean across users, wherever those are.
    pub(crate) within_ratio: f64,
    /// Global templates, and templates of each region; at least 1.
    pub(crate) templates: u32,
    /// Templates of each user; at least 1.
    pub(crate) habits: u32,
}

/// Measured inputs of the solution, from conversations with a common opening, and from the sizes of
/// a sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ground {
    /// Mean similarity of two requests of different conversations with the same template.
    pub(crate) kappa: f64,
    /// Mean similarity of two requests of one conversation, without templates.
    pub(crate) plain: f64,
    /// The same, if the conversation opens with a template.
    pub(crate) opened: f64,
    /// Share of a user's pairs of requests that are within one conversation.
    pub(crate) same: f64,
}

/// Shares of the conversations that open with a template of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Openings {
    pub(crate) global: f64,
    pub(crate) regional: f64,
    pub(crate) personal: f64,
    templates: f64,
    habits: f64,
}

/// The kind of template that a conversation opens with, with its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    Plain,
    Global(u64),
    Regional(u64),
    Personal(u64),
}

/// Regions of the published measurement, for the share of pairs of users in the same region.
const REGIONS: f64 = 3.0;

impl Openings {
    /// The shares that give `targets`.
    pub(crate) fn solve(targets: Targets, ground: Ground) -> Openings {
        let (n, m) = (f64::from(targets.templates.max(1)), f64::from(targets.habits.max(1)));
        let share = |similarity: f64| libm::sqrt((similarity * n / ground.kappa).max(0.0)).min(1.0);
        let global = share(targets.across_regions);
        let in_region = targets.across_users.max(targets.across_regions);
        let regional = share(in_region - targets.across_regions).min(1.0 - global);
        let across = (in_region + (REGIONS - 1.0) * targets.across_regions) / REGIONS;
        let within = targets.within_ratio * across;
        // The similarity inside a conversation depends on the personal share itself: three rounds
        // bring it to the fourth digit.
        let mut personal = 0.0;
        for _ in 0..8 {
            let opened = global + regional + personal;
            let inside = opened * ground.opened + (1.0 - opened) * ground.plain;
            let between = (within - ground.same * inside) / (1.0 - ground.same);
            let excess = ((between - in_region) / ground.kappa).max(0.0);
            personal = libm::sqrt(excess * m).min(1.0 - global - regional);
        }
        Openings { global, regional, personal, templates: n, habits: m }
    }

    /// The opening that `u`, uniform in [0, 1), stands for.
    pub(crate) fn pick(&self, u: f64) -> Opening {
        // The position of `u` within its share is uniform, and selects the template.
        let which = |left: f64, share: f64, of: f64| (left / share * of) as u64;
        let (regional, personal) = (u - self.global, u - self.global - self.regional);
        if regional < 0.0 {
            Opening::Global(which(u, self.global, self.templates))
        } else if personal < 0.0 {
            Opening::Regional(which(regional, self.regional, self.templates))
        } else if personal < self.personal {
            Opening::Personal(which(personal, self.personal, self.habits))
        } else {
            Opening::Plain
        }
    }
}
