//! Access control of the admin port. It admits a program with a token, a party of the fleet with
//! its certificate, or a browser that logged in. Without tokens and the fleet's certificates the
//! port is open to the machine; such a configuration is refused if the port listens beyond
//! loopback.

use http::header::{AUTHORIZATION, COOKIE, HeaderMap};
use http::{Method, StatusCode};
use meridian_config::AdminAccess;
use meridian_protocol::admin::Guard;
use meridian_protocol::peer::Party;
use subtle::ConstantTimeEq;

use super::sessions::{Session, Sessions};
use super::tls::Caller;
use crate::inputs::tenants::hashed;
use crate::refusal::Refusal;

/// The header that a browser sends with changes.
const CSRF: &str = "x-meridian-csrf";

/// The settings of `admin_access` that are in force.
#[derive(Debug)]
pub(crate) struct Door {
    pub(super) guard: Guard,
    pub(super) tokens: Vec<[u8; 32]>,
    is_closed: bool,
}

/// The caller.
#[derive(Debug)]
pub(super) enum Who {
    /// Any caller: the port is open.
    Anyone,
    Token,
    Party(Party),
    /// A browser that logged in.
    Browser(Session),
}

impl Door {
    pub(crate) fn new(access: &AdminAccess) -> Door {
        Door {
            guard: Guard::new("admin_access.hosts", &access.hosts),
            tokens: access.tokens.iter().filter_map(|token| token.0).collect(),
            is_closed: access.is_closed(),
        }
    }

    /// Refuses requests that a page of another site may have sent.
    pub(super) fn guard(
        &self,
        method: &Method,
        headers: &HeaderMap,
        caller: &Caller,
    ) -> Result<(), Refusal> {
        let proven = caller.tls || bearer(headers).is_some_and(|token| self.knows(token).is_some());
        Ok(self.guard.check(method, headers, proven)?)
    }

    /// The hash of a token, if it is known.
    pub(super) fn knows(&self, token: &[u8]) -> Option<[u8; 32]> {
        let hash = hashed(token);
        let mut known = false;
        for one in &self.tokens {
            known |= bool::from(one.ct_eq(&hash));
        }
        known.then_some(hash)
    }

    /// Identifies the caller and checks its permission.
    pub(super) fn admit(
        &self,
        method: &Method,
        headers: &HeaderMap,
        caller: &Caller,
        sessions: &Sessions,
    ) -> Result<Who, Refusal> {
        if !self.is_closed {
            return Ok(Who::Anyone);
        }
        if let Some(party) = &caller.party {
            return match party {
                Party::Operator { .. } => Ok(Who::Party(party.clone())),
                _ if *method == Method::GET => Ok(Who::Party(party.clone())),
                _ => Err(Refusal::new(
                    StatusCode::FORBIDDEN,
                    "not_yours",
                    format!(
                        "{party} may only read; use a certificate from `meridian certs issue --operator` for changes"
                    ),
                )),
            };
        }
        if headers.contains_key(AUTHORIZATION) {
            let known = bearer(headers).and_then(|token| self.knows(token));
            return known.map(|_| Who::Token).ok_or_else(wrong_token);
        }
        let cookie = caller.cookie();
        let session = cookies(headers, &cookie).find_map(|id| sessions.find(id, &self.tokens));
        let Some(session) = session else { return Err(self.nothing_came()) };
        let csrf = headers.get(CSRF).map(http::HeaderValue::as_bytes);
        if !method.is_safe() && !session.allows(csrf) {
            return Err(Refusal::new(
                StatusCode::FORBIDDEN,
                "no_csrf_token",
                "a change from a browser needs the header `x-meridian-csrf`; read its value from GET /admin/session",
            ));
        }
        Ok(Who::Browser(session))
    }

    fn nothing_came(&self) -> Refusal {
        let message = match self.tokens.is_empty() {
            true => {
                "this port needs a client certificate; use one from `meridian certs issue --operator`"
            }
            false => {
                "this port needs a token; send it as `Authorization: Bearer TOKEN` (`--token` or MERIDIAN_ADMIN_TOKEN), or log in at /login"
            }
        };
        Refusal::new(StatusCode::UNAUTHORIZED, "no_token", message)
    }
}

/// The refusal of an unknown token.
pub(super) fn wrong_token() -> Refusal {
    Refusal::new(
        StatusCode::UNAUTHORIZED,
        "wrong_token",
        "the token is unknown; check it, or add its hash to `admin_access.tokens`",
    )
}

fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (scheme, token) = values.next()?.as_bytes().split_at_checked(7)?;
    let is_one = values.next().is_none() && scheme.eq_ignore_ascii_case(b"bearer ");
    is_one.then(|| token.trim_ascii())
}

/// The values of a cookie.
pub(super) fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.filter(move |(known, _)| known.trim() == name).map(|(_, value)| value.trim())
}
