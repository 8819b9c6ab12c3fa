//! Numbers as their bits: JSON has no NaN, and its reader may change the last digit of a fraction.

use meridian_base::Time;
use meridian_sim::Sample;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value that is stored as integers.
pub trait Bits: Sized {
    /// The integers.
    type Stored: Serialize + DeserializeOwned;
    /// The value as integers.
    fn store(&self) -> Self::Stored;
    /// The value of these integers.
    fn load(stored: Self::Stored) -> Self;
}

impl Bits for f64 {
    type Stored = u64;
    fn store(&self) -> u64 {
        self.to_bits()
    }
    fn load(stored: u64) -> f64 {
        f64::from_bits(stored)
    }
}

impl Bits for Sample {
    type Stored = (u64, u32, u32, u32, u32);
    fn store(&self) -> Self::Stored {
        let Sample { at, replica, running, outstanding, kv_used } = *self;
        (at.as_nanos(), replica, running, outstanding, kv_used.to_bits())
    }
    fn load((at, replica, running, outstanding, kv_used): Self::Stored) -> Sample {
        let (at, kv_used) = (Time::from_nanos(at), f32::from_bits(kv_used));
        Sample { at, replica, running, outstanding, kv_used }
    }
}

impl<B: Bits> Bits for Option<B> {
    type Stored = Option<B::Stored>;
    fn store(&self) -> Self::Stored {
        self.as_ref().map(B::store)
    }
    fn load(stored: Self::Stored) -> Self {
        stored.map(B::load)
    }
}

impl<B: Bits> Bits for Vec<B> {
    type Stored = Vec<B::Stored>;
    fn store(&self) -> Self::Stored {
        self.iter().map(B::store).collect()
    }
    fn load(stored: Self::Stored) -> Self {
        stored.into_iter().map(B::load).collect()
    }
}

pub fn serialize<B: Bits, S: Serializer>(value: &B, s: S) -> Result<S::Ok, S::Error> {
    value.store().serialize(s)
}

pub fn deserialize<'de, B: Bits, D: Deserializer<'de>>(d: D) -> Result<B, D::Error> {
    B::Stored::deserialize(d).map(B::load)
}
