//! The flow machine from outside: the paper's examples, the corrections to it, properties over random
//! inputs, and bad input.

mod corrections;
mod golden;
mod link;
mod passes;
mod permits;
mod properties;
mod refusals;
mod theorem;
