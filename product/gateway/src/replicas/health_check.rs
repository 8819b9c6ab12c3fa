//! Asks an engine about itself, at its health path.
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
use crate::replicas::health::HealthAnswer;
use crate::replicas::member::Member;
use crate::replicas::questions::Questions;

/// Timeout of the question beside the load page: SGLang says 503 when it could not compute a token
/// within 20 s.
const PATIENCE: Duration = Duration::from_secs(30);
/// A probe whose load page is there waits this long for the health page.
const GRACE: Duration = Duration::from_millis(50);

/// Asks the health path.
pub(super) async fn ask(
    questions: &Questions,
    member: &Member,
    path: &str,
    limit: Duration,
) -> HealthAnswer {
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
    member.life.health.heard(&answer);
    answer?.map_or(Ok(()), Err)
}

/// Asks beside the load page, if it is time.
pub(super) fn ask_beside(
    questions: &Arc<Questions>,
    member: &Arc<Member>,
    now: Time,
) -> Option<JoinHandle<()>> {
    if !member.life.health.is_due(now, questions.pace()) {
        return None;
    }
    let (questions, member) = (questions.clone(), member.clone());
    Some(tokio::spawn(async move {
        tokio::select! {
            () = member.gone.cancelled() => {}
            answer = ask(&questions, &member, path_of(&member), PATIENCE) => {
                member.life.health.ends(&answer);
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
