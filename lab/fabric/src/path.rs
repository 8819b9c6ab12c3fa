//! The ports that a flow crosses, without allocation.

use meridian_base::PortId;

/// A path: up to [`Path::MOST`] ports in the order in which they are crossed, none of them twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    len: u8,
    ports: [PortId; Path::MOST],
}

impl Path {
    /// Most ports of a path: a card, up two tiers, down two, a card.
    pub const MOST: usize = 6;

    /// A path over `ports`; `None` if there are none, too many, or a duplicate.
    #[must_use]
    pub fn new(ports: &[PortId]) -> Option<Path> {
        let twice = ports.iter().enumerate().any(|(at, port)| ports[..at].contains(port));
        if ports.is_empty() || twice {
            return None;
        }
        let mut all = [PortId(u32::MAX); Path::MOST];
        all.get_mut(..ports.len())?.copy_from_slice(ports);
        Some(Path { len: ports.len() as u8, ports: all })
    }

    /// The ports.
    #[must_use]
    pub fn ports(&self) -> &[PortId] {
        &self.ports[..usize::from(self.len)]
    }
}
