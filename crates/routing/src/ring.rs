//! Stub until the ring lands.
use meridian_base::ReplicaId;
/// Ring.
#[derive(Debug, Default)]
pub struct Ring;
impl Ring {
    /// New.
    #[must_use]
    pub fn new(_members: &[(ReplicaId, u32)], _vnodes: u32) -> Ring {
        Ring
    }
    /// Walk.
    pub fn walk(&self, _key: u64) -> impl Iterator<Item = ReplicaId> + '_ {
        core::iter::empty()
    }
}
