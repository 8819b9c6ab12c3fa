//! What an engine says about itself at its health path.
//!
//! An engine can serve its metrics page long after it stopped serving requests: vLLM's HTTP server
//! outlives its engine core, and llama.cpp and SGLang list their models while they still load. So
//! the health path is asked beside the load page, once in the idle interval of the probes, and with
//! each probe while the engine says that it is ill. What it said counts until it says something
//! else.
//!
//! Silence says nothing: a busy engine may be late with its health page (SGLang computes a token
//! for it). Neither do 502 and 504, which a proxy sends in place of an engine, and an engine
//! without the page is not ill.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use meridian_base::Time;
use meridian_protocol::engines;
use tokio::task::JoinHandle;

use crate::cause;
use crate::fault::AttemptError;
use crate::lock::Mutex;
use crate::replicas::member::Member;
use crate::replicas::questions::Questions;

/// Timeout of the question beside the load page: SGLang says 503 when it could not compute a token
/// within 20 s.
const PATIENCE: Duration = Duration::from_secs(30);
/// A probe whose load page is there waits this long for the health page.
const GRACE: Duration = Duration::from_millis(50);

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
    fn is_due(&self, now: Time, pace: Duration) -> bool {
        let mut heard = self.0.lock();
        let rested = heard.ill.is_some() || heard.asked.is_none_or(|at| now.since(at) >= pace);
        let is_due = rested && !heard.is_asked;
        if is_due {
            (heard.asked, heard.is_asked) = (Some(now), true);
        }
        is_due
    }

    /// Keeps an answer.
    fn heard(&self, answer: &Answer) {
        if let Ok(ill) = answer {
            self.0.lock().ill.clone_from(ill);
        }
    }

    fn ends(&self, answer: &Answer) {
        self.heard(answer);
        self.0.lock().is_asked = false;
    }
}

/// Why the engine is ill, if it says so. An error is no word of the engine's: it was silent, or a
/// proxy answered.
type Answer = Result<Option<AttemptError>, AttemptError>;

/// Asks the health path.
pub(super) async fn ask(
    questions: &Questions,
    member: &Member,
    path: &str,
    limit: Duration,
) -> Answer {
    let status = questions.get(member, path, limit).await?.status;
    let error = || {
        let message = format!("GET {path}: {status}");
        AttemptError::replica(message).because(cause::SERVER_ERROR)
    };
    match status {
        StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => Err(error()),
        // A server that answers without having that page is still alive.
        StatusCode::NOT_IMPLEMENTED => Ok(None),
        status => Ok(status.is_server_error().then(error)),
    }
}

/// The health check of a probe for which there is no load page.
pub(super) async fn check(
    questions: &Questions,
    member: &Member,
    limit: Duration,
) -> Result<(), AttemptError> {
    let answer = ask(questions, member, path_of(member), limit).await;
    member.health.heard(&answer);
    answer?.map_or(Ok(()), Err)
}

/// Asks beside the load page, if it is time.
pub(super) fn ask_beside(
    questions: &Arc<Questions>,
    member: &Arc<Member>,
    now: Time,
) -> Option<JoinHandle<()>> {
    if !member.health.is_due(now, questions.pace()) {
        return None;
    }
    let (questions, member) = (questions.clone(), member.clone());
    Some(tokio::spawn(async move {
        tokio::select! {
            () = member.gone.cancelled() => {}
            answer = ask(&questions, &member, path_of(&member), PATIENCE) => {
                member.health.ends(&answer);
            }
        }
    }))
}

/// Waits a little for the answer. One that is later counts for the next probe.
pub(super) async fn wait(question: Option<JoinHandle<()>>) {
    if let Some(question) = question {
        let _ = tokio::time::timeout(GRACE, question).await;
    }
}

fn path_of(member: &Member) -> &'static str {
    member.engine().unwrap_or(engines::NONE).health
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
