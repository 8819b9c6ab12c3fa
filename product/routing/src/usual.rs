//! The usual times of replicas of one kind, by size, with which each of their answers is compared.
//!
//! A line over sizes would not do. Short prompts take longer a token than the line says, because reading
//! the weights takes its time, and long ones less. A replica that looks fast is then sent the long
//! prompts, and looks faster still. So answers are compared with those of their own size.

use crate::evidence::Evidence;

/// Classes of sizes, each up to twice the size of the one before.
const CLASSES: usize = 24;
/// Answers in a class before others are compared with them.
const ENOUGH: f64 = 8.0;
/// Most answers that count in a class: as many as say enough of eight replicas.
const MEMORY: f64 = 256.0;

/// Mean logarithms of times, by size.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usual([Class; CLASSES]);

#[derive(Clone, Copy, Debug, Default)]
struct Class {
    answers: f64,
    log: f64,
}

impl Usual {
    /// Compares an answer of this size with the others, and adds it to them without what is known of
    /// its replica.
    pub(crate) fn add(&mut self, size: f64, time: f64, own: &mut Evidence) {
        if !(size >= 0.0 && time > 0.0 && time.is_finite()) {
            return;
        }
        let class = &mut self.0[(libm::log2(size + 1.0) as usize).min(CLASSES - 1)];
        if class.answers >= ENOUGH {
            own.add(time / libm::exp(class.log));
        }
        class.answers = (class.answers + 1.0).min(MEMORY);
        class.log += (libm::log(time / own.factor()) - class.log) / class.answers;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The time of a token falls with the size of the prompt. One replica gets only long prompts, the
    // other only short ones, and nobody looks fast or slow.
    #[test]
    fn sizes_are_told_apart() {
        let mut usual = Usual::default();
        let mut own = [Evidence::NONE; 3];
        let per_token = |size: f64| 0.1 + 20.0 / size;
        for turn in 0..300 {
            let scatter = 1.0 + 0.2 * libm::sin(f64::from(turn) * 12.9898);
            usual.add(300.0, per_token(300.0) * scatter, &mut own[0]);
            usual.add(8000.0, per_token(8000.0) * scatter, &mut own[1]);
            let any = if turn % 2 == 0 { 300.0 } else { 8000.0 };
            usual.add(any, per_token(any) * scatter, &mut own[2]);
        }
        assert!(own.iter().all(|own| own.factor() == 1.0), "{own:?}");
    }
}
