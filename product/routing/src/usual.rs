//! The usual times of replicas of one kind, by size, with which each of their answers is compared.
//!
//! One line over all sizes would not do. Short prompts take longer than it says, because reading the
//! weights takes its time. A replica that looks fast is then sent the long prompts, and looks faster
//! still. So answers are compared with those of about their own size, by how the time of these grows
//! with it.

use crate::evidence::Evidence;

/// Classes of sizes, each up to twice the size of the one before.
const CLASSES: usize = 24;
/// Answers in a class before others are compared with them.
const ENOUGH: f64 = 8.0;
/// Most answers that count in a class: as many as say enough of eight replicas.
const MEMORY: f64 = 256.0;
/// Until the sizes in a class differ by this variance of their logarithms, a time is taken to grow with
/// the root of the size.
const LEAN: f64 = 0.004;
const ROOT: f64 = 0.5;

/// Times by size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usual([Class; CLASSES]);

/// Answers of one class: means, variance and covariance of the logarithms of size and time.
#[derive(Clone, Copy, Debug, Default)]
struct Class {
    answers: f64,
    size: f64,
    time: f64,
    sizes: f64,
    both: f64,
}

impl Class {
    /// The logarithm of the usual time at a size of this logarithm.
    fn expected(&self, size: f64) -> f64 {
        let power = (self.both + LEAN * ROOT) / (self.sizes + LEAN);
        self.time + power * (size - self.size)
    }

    fn add(&mut self, size: f64, time: f64) {
        self.answers = (self.answers + 1.0).min(MEMORY);
        let gain = 1.0 / self.answers;
        let (off_size, off_time) = (size - self.size, time - self.time);
        self.size += gain * off_size;
        self.time += gain * off_time;
        self.sizes = (1.0 - gain) * (self.sizes + gain * off_size * off_size);
        self.both = (1.0 - gain) * (self.both + gain * off_size * off_time);
    }
}

impl Usual {
    /// Compares an answer of this size with the others, and adds it to them without what is known of
    /// its replica.
    pub(crate) fn add(&mut self, size: f64, time: f64, own: &mut Evidence) {
        if !(size >= 0.0 && time > 0.0 && (size + time).is_finite()) {
            return;
        }
        let class = &mut self.0[(libm::log2(size + 1.0) as usize).min(CLASSES - 1)];
        let size = libm::log(size + 1.0);
        if class.answers >= ENOUGH {
            own.add(time / libm::exp(class.expected(size)));
        }
        class.add(size, libm::log(time / own.factor()));
    }

    /// Multiplies all times.
    pub(crate) fn scale(&mut self, factor: f64) {
        self.0.iter_mut().for_each(|class| class.time += libm::log(factor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The time of a prompt is not proportional to its tokens. One replica gets the short prompts of a
    // class, another its long ones, a third prompts of another class, and a fourth all of them: none
    // looks fast or slow.
    #[test]
    fn sizes_are_told_apart() {
        let mut usual = Usual::default();
        let mut own = [Evidence::NONE; 4];
        for turn in 0..2000_u32 {
            let wave = libm::sin(f64::from(turn) * 12.9898);
            let sizes = [260.0 + 30.0 * wave, 480.0 - 30.0 * wave, 8000.0 + 3000.0 * wave];
            let any = sizes[turn as usize % 3];
            for (own, size) in own.iter_mut().zip([sizes[0], sizes[1], sizes[2], any]) {
                let scatter = 1.0 + 0.2 * libm::sin(f64::from(turn) * 78.233 + size);
                usual.add(size, (30.0 + 0.02 * size) * scatter, own);
            }
        }
        assert!(own.iter().all(|own| own.factor() == 1.0), "{own:?}");
    }
}
