//! One macro for visitors that take a few kinds of value and refuse the others by name.
//!
//! `serde`'s own refusals quote the value, which here may be a prompt.

macro_rules! refuse {
    ($($visit:ident($type:ty) $found:literal)*) => {
        $(fn $visit<E: Error>(self, _: $type) -> Result<Self::Value, E> {
            Err(self.refuse($found))
        })*
    };
}
macro_rules! refuse_scalars {
    () => {
        $crate::openai::refuse::refuse! {
            visit_bool(bool) "a boolean"
            visit_i64(i64) "a number"
            visit_u64(u64) "a number"
            visit_f64(f64) "a number"
            visit_str(&str) "a string"
        }
        fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
            Err(self.refuse("null"))
        }
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("another kind of value")
        }
    };
}

pub(crate) use {refuse, refuse_scalars};
