//! Is the engine model true? Its times against published measurements.

pub mod points;
pub mod procedure;
