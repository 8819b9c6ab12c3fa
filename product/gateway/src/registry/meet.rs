//! `meridian check --live`: whether each control plane of the configuration answers, and whether
//! they all have the same store.

use std::sync::Arc;

use bytes::Bytes;
use http::Method;
use meridian_protocol::registry::Status;
use tokio::task::JoinSet;

use super::following::Following;
use super::lease::patience;
use super::lost::Lost;

/// One sentence for each control plane: an error if it does not answer, or has another store than
/// the first one that does.
pub(crate) async fn meet(following: &Arc<Following>) -> Vec<Result<String, String>> {
    let planes = &following.control.planes;
    let mut asked = JoinSet::new();
    for at in 0..planes.count() {
        let following = following.clone();
        asked.spawn(async move {
            let (path, limit) = ("/admin/status", patience(&following));
            let said = following.control.ask(at, Method::GET, path, Bytes::new(), limit);
            (at, said.await)
        });
    }
    let mut all = asked.join_all().await;
    all.sort_by_key(|(at, _)| *at);
    let mut first: Option<(usize, String)> = None;
    let one = |(at, said): (usize, Result<Status, Lost>)| {
        let field = format!("{}: {}", planes.urls().field(at), planes.url(at));
        let Status { store, revision, .. } = said.map_err(|why| {
            let remedy = "; start it, or correct its address here";
            let remedy = if why.is_its_own() { remedy } else { "" };
            format!("{field}: {why}{remedy}")
        })?;
        match &first {
            Some((other, known)) if *known != store => {
                let other = planes.urls().field(*other);
                Err(format!(
                    "{field}: has the store {store}, and {other} has {known}; list control planes that share one store"
                ))
            }
            Some(_) => Ok(format!("{field}: answers, at revision {revision}")),
            None => {
                first = Some((at, store));
                Ok(format!("{field}: answers, at revision {revision}"))
            }
        }
    };
    all.into_iter().map(one).collect()
}
