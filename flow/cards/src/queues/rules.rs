//! The commands of a shape, by its kind.

use super::script::Script;
use super::shape::{Kind, Shape};
use super::{ets, htb};

impl Shape {
    /// The commands on a device that has another root than these rules.
    #[must_use]
    pub fn script(&self) -> Script {
        match (self.kind, self.rate) {
            (Kind::Htb, Some(rate)) => htb::script(self, rate),
            _ => ets::script(self),
        }
    }
}
