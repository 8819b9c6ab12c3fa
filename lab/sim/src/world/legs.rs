//! The handlers of split attempts: what gateways, engines and cards do with one.

mod check;
mod engines;
mod gateways;
mod outputs;
mod transfers;

pub(super) use outputs::refused;
