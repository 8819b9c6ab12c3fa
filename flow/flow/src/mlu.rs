//! Minimal link utilisation: the share of a port that a request needs to meet its deadline (MFS,
//! section 4.3).
//!
//! The paper divides one flow's remaining bytes by the time left. The L layer flows of a request
//! share one deadline, so that estimate is low by up to L times. Here all bytes that the request
//! still has to send over the port count, including those of layers not computed yet. The last
//! layer's bytes can't leave before it is computed, so the need is the maximum over all suffixes of
//! layers: the bytes released from some time on, divided by the time from then to the deadline.

/// The bytes that a request still has to send over one port, with times in seconds from now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Need {
    /// Submitted but not completed.
    pub(crate) released: f64,
    /// Of layers that are still to be computed.
    pub(crate) coming: f64,
    /// Of each such layer.
    pub(crate) per_layer: f64,
    /// Time until the next of them is computed.
    pub(crate) next: f64,
    /// Time from one layer to the next.
    pub(crate) pace: f64,
    /// Time until the last byte must have arrived.
    pub(crate) left: f64,
}

impl Need {
    /// The bytes a second that all bytes need until the deadline, which is the suffix that includes
    /// the submitted bytes. At a share of 1 it is the last moment for these; until then they can
    /// leave the port to later layers.
    pub(crate) fn of_all(&self) -> f64 {
        over(self.released + self.coming, self.left)
    }

    /// The bytes a second that the request needs; infinite if no rate is enough.
    ///
    /// With equal layers at an equal pace, the suffix from layer i on needs `(n - i) b / (left -
    /// next - i pace)`, which is monotonic in i: the first or the last layer has the maximum.
    pub(crate) fn rate(&self) -> f64 {
        let all = self.of_all();
        if self.coming <= 0.0 {
            return all;
        }
        let per_layer = self.per_layer.clamp(1.0, self.coming.max(1.0));
        let layers = libm::ceil(self.coming / per_layer);
        let last = self.next + (layers - 1.0) * self.pace;
        // The layers before the last are full, so the remainder belongs to the last one.
        let tail = self.coming - (layers - 1.0) * per_layer;
        all.max(over(self.coming, self.left - self.next)).max(over(tail, self.left - last))
    }
}

fn over(bytes: f64, seconds: f64) -> f64 {
    if bytes <= 0.0 {
        0.0
    } else if seconds <= 0.0 {
        f64::INFINITY
    } else {
        bytes / seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// The definition: the maximum over suffixes of the list of releases.
    fn over_suffixes(releases: &[(f64, f64)], left: f64) -> f64 {
        let suffix = |i: usize| {
            let bytes: f64 = releases[i..].iter().map(|(_, bytes)| bytes).sum();
            over(bytes, left - releases[i].0)
        };
        (0..releases.len()).map(suffix).fold(0.0, f64::max)
    }

    // Correction 1: 32 layers of a byte each, one released, and 64 s left. The flow alone needs
    // 1/64 of the port; the request needs half of it.
    #[test]
    fn correction_1_mlu_counts_all_layers_of_the_request() {
        let need =
            Need { released: 1.0, coming: 31.0, per_layer: 1.0, next: 0.0, pace: 0.0, left: 64.0 };
        assert_eq!(need.rate(), 0.5);
        // Computed one a second, the last byte is there a second before the end: then it needs more
        // than all bytes over all of the time.
        let late = Need { next: 1.0, pace: 2.0, left: 62.0, ..need };
        assert_eq!(late.rate(), 1.0, "the last layer comes at 61 and has one second");
    }

    // The closed form is the maximum over suffixes, for equal layers, at any pace and any slack.
    #[test]
    fn the_closed_form_is_the_maximum_over_suffixes() {
        let mut rng = meridian_base::Rng::new(5);
        for _ in 0..20_000 {
            let layers = 1 + rng.below(40);
            let per_layer = 1.0 + rng.below(9) as f64;
            let (next, pace) = (rng.unit(), rng.unit() * 0.2);
            let released = if rng.below(2) == 0 { 0.0 } else { rng.unit() * 50.0 };
            let left = rng.unit() * 12.0;
            let coming = per_layer * layers as f64;
            let need = Need { released, coming, per_layer, next, pace, left };
            let mut list: Vec<(f64, f64)> = Vec::from([(0.0, released)]);
            list.extend((0..layers).map(|i| (next + pace * i as f64, per_layer)));
            let (closed, naive) = (need.rate(), over_suffixes(&list, left));
            let equal = closed == naive || (closed - naive).abs() < 1e-6 * naive;
            assert!(equal, "{closed} is not {naive} of {need:?}");
        }
    }

    // A missed deadline needs more than any port has; nothing to send needs nothing.
    #[test]
    fn the_ends_of_the_range() {
        let none =
            Need { released: 0.0, coming: 0.0, per_layer: 1.0, next: 0.0, pace: 0.0, left: -1.0 };
        assert_eq!(none.rate(), 0.0);
        assert_eq!(Need { released: 1.0, ..none }.rate(), f64::INFINITY);
    }
}
