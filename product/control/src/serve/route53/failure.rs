//! Why a request failed, for the log and the admin page: the field or the cause, and the remedy.

use std::error::Error;
use std::fmt;
use std::net::IpAddr;

use aws_sdk_route53::config::http::HttpResponse;
use aws_sdk_route53::error::{ProvideErrorMetadata, SdkError};
use meridian_config::Route53 as Config;

/// Longest text of Route 53 that is shown.
const MOST: usize = 600;

/// A failed request.
#[derive(Debug)]
pub(super) struct Failure {
    text: String,
    /// Route 53 refuses what was sent; other requests may succeed.
    pub(super) is_refusal: bool,
    /// The account has no room for another health check.
    pub(super) is_full: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Failure {
    /// One of this process.
    pub(super) fn new(cause: impl fmt::Display) -> Failure {
        Failure { text: format!("route53: {cause}"), is_refusal: false, is_full: false }
    }

    /// One that the SDK reports.
    pub(super) fn of<E>(config: &Config, error: &SdkError<E, HttpResponse>) -> Failure
    where
        E: Error + ProvideErrorMetadata + 'static,
    {
        let status = error.raw_response().map(|response| response.status().as_u16());
        let code = match (error.code(), status) {
            (Some(code), _) => code,
            // Such as an answer of a proxy.
            (None, Some(401 | 403)) => "AuthFailure",
            (None, _) => "",
        };
        let said: String = match (error.message(), status) {
            (Some(message), _) => message.to_owned(),
            (None, Some(status)) => format!("status {status}"),
            (None, None) => causes(error),
        };
        // After the first line, Route 53 repeats what was signed, with the session's token.
        let said: String = said.lines().next().unwrap_or_default().chars().take(MOST).collect();
        let (is_refusal, is_full) = (code == "InvalidInput", code == "TooManyHealthChecks");
        Failure { text: text(config, code, &said), is_refusal, is_full }
    }

    /// The same about a gateway's address.
    pub(super) fn about(self, address: IpAddr) -> Failure {
        let Failure { text, .. } = &self;
        let text = format!(
            "{text}; {address} has no record until its gateway has another `public`, or route53.health_check other settings"
        );
        Failure { text, ..self }
    }
}

/// An error with its causes, and not the SDK's dump of them, which has whole responses.
fn causes(error: &dyn Error) -> String {
    let (mut text, mut next) = (error.to_string(), error.source());
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

fn text(config: &Config, code: &str, said: &str) -> String {
    let zone = &config.zone;
    match code {
            "NoSuchHostedZone" => format!(
                "route53.zone: `{zone}` is not a hosted zone of this AWS account; copy the id from Route 53, and use credentials of the account that has the zone"
            ),
            "AccessDenied" | "AccessDeniedException" => format!(
                "route53: the credentials lack a permission: {said}; give them the policy of docs/control.md"
            ),
            "InvalidClientTokenId"
            | "SignatureDoesNotMatch"
            | "ExpiredToken"
            | "UnrecognizedClientException"
            | "InvalidSignatureException"
            | "AuthFailure"
            | "MissingAuthenticationToken" => format!(
                "route53: AWS refuses the credentials ({code}): {said}; replace AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, the profile, or the machine's role"
            ),
            "TooManyHealthChecks" => {
                "route53: the account has as many health checks as it may have; ask AWS for a higher quota".to_owned()
            }
            "Throttling" | "ThrottlingException" | "PriorRequestNotComplete" => {
                format!("route53: Route 53 is busy ({code}); the next attempt follows by itself")
            }
            "" if said.contains("credential") => format!(
                "route53: there are no AWS credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role: {said}"
            ),
            "" => format!(
                "route53: Route 53 cannot be reached: {said}; check the network and route53.endpoint; it is tried again"
            ),
            code => format!(
                "route53: Route 53 refuses a request ({code}): {said}; compare the zone with GET /admin/route53; it is tried again"
            ),
    }
}
