//! Stub.
/// Config.
pub struct Config;
/// Input.
pub struct Input;
/// Output.
pub struct Output;
/// Machine.
pub struct Routing;
