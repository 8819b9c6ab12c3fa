//! Scenarios of the routing machine.

mod peers;
mod region;

/// The policies that the tests go through. `meridian-rivals` has the same tests, with those of other
/// routers too.
mod every {
    pub(crate) use meridian_routing::policy::find;
}
