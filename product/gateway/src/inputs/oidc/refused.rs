//! Why a token is refused. Messages name the cause and the remedy, and never a value of the token.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;

use super::token::MOST_TOKEN;
use crate::refusal::Refusal;

/// `WWW-Authenticate` of a refused token (RFC 6750, section 3.1).
const CHALLENGE: &str = "Bearer error=\"invalid_token\"";

/// Why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wrong {
    TooLong,
    Header,
    Claims,
    Algorithm,
    Issuer,
    /// The keys of its issuer are not known yet.
    NoKeys(Duration),
    Key,
    Signature,
    Audience,
    NoExpiry,
    Expired,
    NotYet,
    /// The claim of this name does not name a tenant.
    Tenant(String),
    /// The claim of this name is not a priority class.
    Priority(String),
    /// Its tenant is not configured, or not this issuer's.
    UnknownTenant,
}

impl Wrong {
    /// The code for clients.
    pub(super) fn code(&self) -> &'static str {
        match self {
            Wrong::Issuer => "wrong_issuer",
            Wrong::Audience => "wrong_audience",
            Wrong::Expired => "token_expired",
            Wrong::NotYet => "token_not_yet_valid",
            Wrong::NoKeys(_) => "issuer_unavailable",
            Wrong::UnknownTenant => "unknown_tenant",
            _ => "invalid_token",
        }
    }

    fn message(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Wrong::TooLong => {
                return format!(
                    "the token is longer than {MOST_TOKEN} bytes; configure the identity provider to put fewer claims into it"
                )
                .into();
            }
            Wrong::Header => {
                "the token's header cannot be read, requires an extension, or names no known algorithm; send a token signed with a public-key algorithm, such as RS256 or ES256"
            }
            Wrong::Claims => {
                "the token's claims cannot be read; send a token with `iss`, `aud` and `exp` as RFC 7519 defines them"
            }
            Wrong::Algorithm => {
                "the token is signed with an algorithm that is not accepted; use one that `oidc.algorithms` of the gateway lists"
            }
            Wrong::Issuer => {
                "the token is of an issuer that is not accepted; send one of an issuer that `oidc` of the gateway lists"
            }
            Wrong::NoKeys(_) => {
                "the gateway could not fetch the keys of the token's issuer yet; retry later, or send an API key"
            }
            Wrong::Key => {
                "the token is signed with a key that its issuer does not publish; request a new token. If the issuer has just exchanged its keys, retry in half a minute"
            }
            Wrong::Signature => "the token's signature is wrong; request a new token",
            Wrong::Audience => {
                "the token is for another audience; request one whose `aud` is in `oidc.audience` of the gateway"
            }
            Wrong::NoExpiry => "the token never expires; request one with `exp`",
            Wrong::Expired => "the token has expired; request a new one",
            Wrong::NotYet => {
                "the token is not valid yet (`nbf`); send it later, or set the clocks of issuer and gateway"
            }
            Wrong::Tenant(claim) => {
                return format!(
                    "the token's claim `{claim}` does not name one tenant; configure the identity provider to put one name of 1 to 128 characters without spaces there"
                )
                .into();
            }
            Wrong::Priority(claim) => {
                return format!(
                    "the token's claim `{claim}` is not a priority class; configure the identity provider to put low, normal or high there"
                )
                .into();
            }
            Wrong::UnknownTenant => {
                "the token is valid, but its tenant may not send requests here; ask the operator to add it to `tenants` and, if listed there, to `oidc.tenants`"
            }
        })
    }
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Refusal {
        let status = match wrong {
            Wrong::NoKeys(_) => StatusCode::SERVICE_UNAVAILABLE,
            Wrong::UnknownTenant => StatusCode::FORBIDDEN,
            _ => StatusCode::UNAUTHORIZED,
        };
        let refusal = Refusal::new(status, wrong.code(), wrong.message());
        match wrong {
            Wrong::NoKeys(wait) => refusal.retry_after(wait),
            _ => Refusal { challenge: CHALLENGE, ..refusal },
        }
    }
}
