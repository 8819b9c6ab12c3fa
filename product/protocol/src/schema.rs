//! JSON schemas of values that are written in a form of their own. Structs derive theirs.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::admin::{EngineName, RoleName, TransferName};
use crate::policy::Scalar;
use crate::units::{Size, Span};

/// A type whose values are written in a form of their own.
macro_rules! form {
    ($type:ty, $name:literal, |$generator:ident| $schema:expr) => {
        impl JsonSchema for $type {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

form!(Span, "Duration", |_generator| json_schema!({
    "description": "A duration with its unit, as in 250ms, 10s or 2m",
    "type": "string",
    "pattern": "^\\s*([0-9]+\\s*[a-zA-Zµ]+\\s*)+$|^0$",
}));
form!(Size, "Size", |_generator| json_schema!({
    "description": "A number of bytes with its unit, as in 64KiB or 16MiB",
    "type": ["string", "integer"],
    "pattern": "^\\s*[0-9]+(\\.[0-9]+)?\\s*([kKmMgGtTpP]?[iI]?[bB]?)\\s*$",
    "minimum": 0,
}));
form!(EngineName, "Engine", |_generator| names(EngineName::all().map(EngineName::name)));
form!(RoleName, "Role", |_generator| names(RoleName::all()));
form!(TransferName, "Transfer", |_generator| names(TransferName::all()));
form!(Scalar, "Scalar", |_generator| json_schema!({"type": ["number", "boolean", "string"]}));

/// One of some words.
fn names(all: impl Iterator<Item = &'static str>) -> Schema {
    let all: Vec<&str> = all.collect();
    json_schema!({"enum": all})
}
