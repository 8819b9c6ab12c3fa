//! The admin port: status, metrics, replicas, explanations.

pub(crate) mod door;
pub(crate) mod explain;
mod login;
pub(crate) mod page;
pub(crate) mod pages;
mod pools;
pub(crate) mod port;
pub(crate) mod sessions;
pub(crate) mod status;
pub(crate) mod tls;
