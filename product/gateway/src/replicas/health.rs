//! What an engine last said about itself at its health path. `health_check.rs` asks.
//!
//! What it said counts until it says something else: silence takes nothing back.

use std::time::Duration;

use meridian_base::Time;

use crate::fault::AttemptError;
use crate::lock::Mutex;

/// Why the engine is ill, if it says so. An error is no word of the engine's: it was silent, or a
/// proxy answered.
pub(super) type HealthAnswer = Result<Option<AttemptError>, AttemptError>;

/// What an engine last said about itself.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Heard>);

#[derive(Debug, Default)]
struct Heard {
    /// When it was last asked, and whether that is not answered yet.
    asked: Option<Time>,
    is_asked: bool,
    /// The server error with which it answered, if it did.
    ill: Option<AttemptError>,
}

impl Health {
    /// Why the engine is ill, by its own word.
    pub(crate) fn ill(&self) -> Option<AttemptError> {
        self.0.lock().ill.clone()
    }

    /// Whether to ask now. The question then has to end with [`Health::ends`].
    pub(super) fn is_due(&self, now: Time, pace: Duration) -> bool {
        let mut heard = self.0.lock();
        let rested = heard.ill.is_some() || heard.asked.is_none_or(|at| now.since(at) >= pace);
        let is_due = rested && !heard.is_asked;
        if is_due {
            (heard.asked, heard.is_asked) = (Some(now), true);
        }
        is_due
    }

    /// Keeps an answer.
    pub(super) fn heard(&self, answer: &HealthAnswer) {
        if let Ok(ill) = answer {
            self.0.lock().ill.clone_from(ill);
        }
    }

    pub(super) fn ends(&self, answer: &HealthAnswer) {
        self.heard(answer);
        self.0.lock().is_asked = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn ill() -> AttemptError {
        AttemptError::replica("GET /health: 503 Service Unavailable")
    }

    // The page is asked once in the idle interval, one question at a time, and with each probe while
    // the engine says that it is ill. Silence takes nothing back.
    #[test]
    fn once_in_an_interval() {
        let health = Health::default();
        assert!(health.is_due(at(0), PACE));
        assert!(!health.is_due(at(5000), PACE), "it is not answered yet");
        health.ends(&Ok(None));
        assert!(health.is_due(at(5000), PACE));
        health.ends(&Ok(None));
        assert!(!health.is_due(at(5999), PACE) && health.is_due(at(6000), PACE));
        health.ends(&Ok(Some(ill())));
        assert!(health.ill().is_some() && health.is_due(at(6100), PACE));
        health.ends(&Err(AttemptError::replica("no answer")));
        assert!(health.ill().is_some() && health.is_due(at(6200), PACE));
        health.ends(&Ok(None));
        assert!(health.ill().is_none() && !health.is_due(at(6300), PACE));
    }
}
