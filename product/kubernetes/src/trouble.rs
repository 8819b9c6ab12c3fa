//! Why a watch failed, for the log and the status.

use kube::core::Status;
use kube::runtime::watcher::Error;

/// The code of an API server that no longer has the version from which a watch continues.
const GONE: u16 = 410;
/// The code of one that does not accept the credentials.
const UNKNOWN: u16 = 401;

/// The reason with its remedy; `None` if the watch lists again by itself.
pub(crate) fn reason(error: &Error, resource: &str, namespace: &str) -> Option<String> {
    match of(error) {
        Some(status) if status.code == GONE => None,
        Some(status) if status.code == 403 => Some(format!(
            "the API server refuses to list {resource} in the namespace {namespace}; give the gateway's service account a role with get, list and watch of {resource}: {}",
            status.message
        )),
        Some(status) if status.code == UNKNOWN => Some(format!(
            "the API server does not accept the gateway's credentials: {}",
            status.message
        )),
        Some(status) => Some(format!("{resource} in the namespace {namespace}: {status}")),
        None => Some(format!("{resource} in the namespace {namespace}: {}", chain(error))),
    }
}

/// Whether a running watch ends because the API server no longer has its version. The watcher then lists
/// again by itself.
pub(crate) fn is_gone(error: &Error) -> bool {
    matches!(error, Error::WatchError(status) if status.code == GONE)
}

/// Whether the API server does not know who asks: a token or certificate may have been replaced.
pub(crate) fn is_unknown(error: &Error) -> bool {
    of(error).is_some_and(|status| status.code == UNKNOWN)
}

/// The API server's answer, if there was one.
fn of(error: &Error) -> Option<&Status> {
    match error {
        Error::WatchError(status) => Some(status),
        Error::InitialListFailed(kube::Error::Api(status))
        | Error::WatchStartFailed(kube::Error::Api(status))
        | Error::WatchFailed(kube::Error::Api(status)) => Some(status),
        _ => None,
    }
}

/// An error with its causes, each once.
fn chain(error: &Error) -> String {
    let (mut text, mut next) = (error.to_string(), std::error::Error::source(error));
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(code: u16) -> Option<String> {
        let mut status = Status::failure("pods is forbidden", "Reason");
        status.code = code;
        let error = Error::InitialListFailed(kube::Error::Api(Box::new(status)));
        reason(&error, "pods", "serving")
    }

    // A watch that is too old starts again without a failure; a refusal names the missing right.
    #[test]
    fn reasons() {
        assert_eq!(failed(410), None);
        let forbidden = failed(403).expect("a failure");
        assert!(forbidden.contains("get, list and watch of pods"), "{forbidden}");
        assert!(failed(401).is_some_and(|why| why.contains("credentials")));
        assert!(failed(500).is_some_and(|why| why.contains("pods in the namespace serving")));
        let none = reason(&Error::NoResourceVersion, "pods", "serving");
        assert!(none.is_some_and(|why| why.contains("resourceVersion")));
    }
}
