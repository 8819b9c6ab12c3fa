//! Reads a configuration from the tree. Each failure has its place, and speaks of fields, lists and
//! values instead of types.

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use serde::forward_to_deserialize_any;

use super::fault::Fault;
use super::node::{Field, Node, NodeKind};
use super::path::Step;
use super::shape;

type Result<T> = std::result::Result<T, Fault>;

impl Node {
    fn sections<'de, V: Visitor<'de>>(&'de self, names: &[&str], visitor: V) -> Result<V::Value> {
        match &self.kind {
            NodeKind::Section(fields) => {
                visitor.visit_map(Fields { rest: fields.iter(), next: None })
            }
            NodeKind::Empty => visitor.visit_map(Fields { rest: [].iter(), next: None }),
            _ => Err(Fault::new(shape::not_section(self, names))),
        }
    }

    fn whole<T: TryFrom<i128>>(&self, least: i128, most: i128) -> Result<T> {
        let NodeKind::Text { text, quoted } = &self.kind else {
            return Err(Fault::new(shape::not_single(self)));
        };
        let number = text.parse::<i128>().ok().filter(|_| !quoted);
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| Fault::new(shape::not_number(text, *quoted, least, most)))
    }

    fn fraction(&self) -> Result<f64> {
        let NodeKind::Text { text, quoted } = &self.kind else {
            return Err(Fault::new(shape::not_single(self)));
        };
        let number = text.parse::<f64>().ok().filter(|_| !quoted);
        number.ok_or_else(|| match quoted {
            true if text.parse::<f64>().is_ok() => Fault::new(format!(
                "`{text}` is in quotes, which make it a text; remove the quotes"
            )),
            _ => Fault::new(format!("`{text}` is not a number; write one, as in 0.8")),
        })
    }
}

macro_rules! whole_numbers {
    ($($method:ident $visit:ident $type:ty;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
            visitor.$visit(self.whole::<$type>(<$type>::MIN as i128, <$type>::MAX as i128)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for &'de Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match &self.kind {
            NodeKind::Empty => visitor.visit_unit(),
            NodeKind::Text { text, quoted: true } => visitor.visit_str(text),
            NodeKind::Text { text, .. } => match (text.as_str(), text.parse::<i64>(), text.parse())
            {
                ("true", ..) => visitor.visit_bool(true),
                ("false", ..) => visitor.visit_bool(false),
                (_, Ok(number), _) => visitor.visit_i64(number),
                (_, _, Ok(number)) => visitor.visit_f64(number),
                _ => visitor.visit_str(text),
            },
            NodeKind::List(_) => self.deserialize_seq(visitor),
            NodeKind::Section(_) => self.deserialize_map(visitor),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match &self.kind {
            NodeKind::Text { text, quoted: false } if text == "true" => visitor.visit_bool(true),
            NodeKind::Text { text, quoted: false } if text == "false" => visitor.visit_bool(false),
            NodeKind::Text { text, .. } => {
                Err(Fault::new(format!("`{text}` is not a yes or no; write true or false")))
            }
            _ => Err(Fault::new(shape::not_single(self))),
        }
    }

    whole_numbers! {
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_f64(self.fraction()?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_f64(self.fraction()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match &self.kind {
            NodeKind::Text { text, .. } => visitor.visit_str(text),
            _ => Err(Fault::new(shape::not_single(self))),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match &self.kind {
            NodeKind::Empty => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        match &self.kind {
            NodeKind::List(entries) => visitor.visit_seq(Entries { rest: entries.iter() }),
            NodeKind::Empty => visitor.visit_seq(Entries { rest: [].iter() }),
            _ => Err(Fault::new(shape::not_list(self))),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        self.sections(&[], visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        self.sections(fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match &self.kind {
            NodeKind::Text { text, .. } => visitor.visit_enum(Choice { name: text, value: None }),
            NodeKind::Section(fields) => match fields.as_slice() {
                [Field { name, value, .. }] => {
                    visitor.visit_enum(Choice { name, value: Some(value) })
                }
                _ => Err(Fault::new(format!("needs one name; write one of {}", names.join(", ")))),
            },
            _ => Err(Fault::new(format!("needs a name; write one of {}", names.join(", ")))),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct
    }
}

struct Fields<'de> {
    rest: std::slice::Iter<'de, Field>,
    next: Option<&'de Field>,
}

impl<'de> MapAccess<'de> for Fields<'de> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>> {
        let Some(field) = self.rest.next() else { return Ok(None) };
        self.next = Some(field);
        let name: StrDeserializer<'_, Fault> = field.name.as_str().into_deserializer();
        seed.deserialize(name).map(Some).map_err(|fault| fault.inside(step(field)))
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value> {
        match self.next.take() {
            Some(field) => {
                seed.deserialize(&field.value).map_err(|fault| fault.inside(step(field)))
            }
            None => Err(Fault::new("has a value without a name")),
        }
    }
}

fn step(field: &Field) -> Step {
    Step::Field(field.name.clone())
}

struct Entries<'de> {
    rest: std::slice::Iter<'de, (usize, Node)>,
}

impl<'de> SeqAccess<'de> for Entries<'de> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>> {
        let Some((place, node)) = self.rest.next() else { return Ok(None) };
        seed.deserialize(node).map(Some).map_err(|fault| fault.inside(Step::Entry(*place)))
    }
}

/// One of several named forms, such as `pending` or `outstanding: 24`.
struct Choice<'de> {
    name: &'de str,
    value: Option<&'de Node>,
}

impl<'de> EnumAccess<'de> for Choice<'de> {
    type Error = Fault;
    type Variant = Choice<'de>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Choice<'de>)> {
        let name: StrDeserializer<'_, Fault> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> VariantAccess<'de> for Choice<'de> {
    type Error = Fault;

    fn unit_variant(self) -> Result<()> {
        match self.value {
            None => Ok(()),
            Some(_) => {
                let name = self.name;
                Err(Fault::new(format!("`{name}` takes no value; write `{name}` alone")))
            }
        }
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value> {
        let name = self.name;
        match self.value {
            Some(value) => {
                seed.deserialize(value).map_err(|fault| fault.inside(Step::Field(name.to_owned())))
            }
            None => {
                Err(Fault::new(format!("`{name}` needs a value; write `{name}: ...` below it")))
            }
        }
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value> {
        Err(Fault::new(format!("`{}` does not fit here", self.name)))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value> {
        match self.value {
            Some(value) => value.sections(fields, visitor),
            None => Err(Fault::new(format!("`{}` needs fields; write them below it", self.name))),
        }
    }
}
