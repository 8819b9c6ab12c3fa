//! A table as Parquet: columns with types, which CSV does not have.
//!
//! A column has the narrowest of four types that holds all of its values: boolean, 64-bit integer,
//! double, or text. Without any value it is a double, the type of a measurement. Every column may have
//! nulls. There is one row group and no compression: a table has some hundred rows.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use serde_json::Value;

use crate::flat;
use crate::flat::Flat;

#[derive(Clone, Copy, Debug, PartialEq)]
enum ParquetKind {
    Boolean,
    Integer,
    Double,
    Text,
}

/// The file.
pub(super) fn bytes(table: &Flat) -> Result<Vec<u8>> {
    let column = |at: usize| table.rows.iter().map(move |row| &row[at]);
    let kinds: Vec<ParquetKind> = (0..table.names.len()).map(|at| kind(column(at))).collect();
    let types = table.names.iter().zip(&kinds).map(|(name, kind)| kind.field(name));
    let types = types.collect::<Result<Vec<_>>>()?;
    let schema = Type::group_type_builder("schema").with_fields(types).build()?;
    let mut file = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::default())?;
    let mut rows = file.next_row_group()?;
    for (at, kind) in kinds.iter().enumerate() {
        let mut writer = rows.next_column()?.expect("the schema has a column for each name");
        kind.put(&mut writer, column(at))?;
        writer.close()?;
    }
    rows.close()?;
    file.into_inner()
}

/// The narrowest type of all values.
fn kind<'a>(values: impl Iterator<Item = &'a Value>) -> ParquetKind {
    let values: Vec<&Value> = values.filter(|value| !value.is_null()).collect();
    let all = |is: fn(&Value) -> bool| values.iter().all(|value| is(value));
    match () {
        () if values.is_empty() => ParquetKind::Double,
        () if all(Value::is_boolean) => ParquetKind::Boolean,
        () if all(Value::is_i64) => ParquetKind::Integer,
        () if all(Value::is_number) => ParquetKind::Double,
        () => ParquetKind::Text,
    }
}

impl ParquetKind {
    fn field(self, name: &str) -> Result<Arc<Type>> {
        let physical = match self {
            ParquetKind::Boolean => Physical::BOOLEAN,
            ParquetKind::Integer => Physical::INT64,
            ParquetKind::Double => Physical::DOUBLE,
            ParquetKind::Text => Physical::BYTE_ARRAY,
        };
        let text = (self == ParquetKind::Text).then_some(LogicalType::String);
        let field = Type::primitive_type_builder(name, physical);
        field.with_repetition(Repetition::OPTIONAL).with_logical_type(text).build().map(Arc::new)
    }

    fn put<'a>(
        self,
        to: &mut SerializedColumnWriter<'_>,
        values: impl Iterator<Item = &'a Value>,
    ) -> Result<()> {
        match self {
            ParquetKind::Boolean => put::<BoolType>(to, values.map(Value::as_bool)),
            ParquetKind::Integer => put::<Int64Type>(to, values.map(Value::as_i64)),
            ParquetKind::Double => put::<DoubleType>(to, values.map(Value::as_f64)),
            ParquetKind::Text => {
                let text = |value: &Value| ByteArray::from(flat::text(value).into_bytes());
                put::<ByteArrayType>(
                    to,
                    values.map(|value| (!value.is_null()).then(|| text(value))),
                )
            }
        }
    }
}

/// Writes a column; a definition level of 0 is a null.
fn put<T: DataType>(
    to: &mut SerializedColumnWriter<'_>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<()> {
    let values: Vec<Option<T::T>> = values.collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    to.typed::<T>().write_batch(&values, Some(&levels), None).map(drop)
}

#[cfg(test)]
mod tests {
    use crate::parquet::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, Row};
    use serde_json::json;

    fn table() -> Flat {
        let rows = [
            json!({"system": "a", "lost": 0, "mean": 1, "none": null, "meets": true, "any": "x"}),
            json!({"system": "b, \"c\"", "lost": -7, "mean": 0.1, "meets": false, "any": 5}),
            json!({"system": "é", "mean": 5e-324, "ci": [1.5, 2.5]}),
        ];
        let fields = |row: Value| row.as_object().expect("an object").clone().into_iter().collect();
        Flat::new(rows.map(fields))
    }

    fn json(row: &Row) -> Value {
        let value = |field: &Field| match field {
            Field::Null => Value::Null,
            Field::Bool(value) => json!(value),
            Field::Long(value) => json!(value),
            Field::Double(value) => json!(value),
            Field::Str(value) => json!(value),
            other => panic!("{other} has another type"),
        };
        row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
    }

    // The library's own reader finds the columns of the CSV with their types, nulls, and every value
    // bit by bit.
    #[test]
    fn a_file_is_read_back() {
        let table = table();
        let read = SerializedFileReader::new(bytes::Bytes::from(bytes(&table).unwrap())).unwrap();
        let schema = read.metadata().file_metadata().schema_descr();
        let columns = schema.columns().iter();
        let types: Vec<String> =
            columns.map(|c| format!("{} {}", c.name(), c.physical_type())).collect();
        let expected = "any BYTE_ARRAY, lost INT64, mean DOUBLE, meets BOOLEAN, none DOUBLE, system \
                        BYTE_ARRAY, ci.low DOUBLE, ci.high DOUBLE";
        assert_eq!(types.join(", "), expected);
        assert_eq!(table.names.join(","), table.csv().lines().next().unwrap());
        let rows: Vec<Value> =
            read.get_row_iter(None).unwrap().map(|row| json(&row.unwrap())).collect();
        let row = |nth: usize, name: &str| rows[nth][name].clone();
        assert_eq!(rows.len(), 3);
        assert_eq!((row(0, "any"), row(1, "any")), (json!("x"), json!("5")));
        assert_eq!((row(1, "lost"), row(2, "lost")), (json!(-7), Value::Null));
        assert_eq!((row(0, "mean"), row(2, "mean")), (json!(1.0), json!(5e-324)));
        assert_eq!((row(0, "meets"), row(2, "meets")), (json!(true), Value::Null));
        assert_eq!((row(1, "system"), row(2, "system")), (json!("b, \"c\""), json!("é")));
        assert_eq!((row(0, "none"), row(2, "ci.high")), (Value::Null, json!(2.5)));
    }

    // The same table gives the same bytes, and a table without rows or columns is a file too.
    #[test]
    fn one_table_one_file() {
        assert_eq!(bytes(&table()).unwrap(), bytes(&table()).unwrap());
        let empty = bytes::Bytes::from(bytes(&Flat::new([])).unwrap());
        assert_eq!(
            SerializedFileReader::new(empty).unwrap().metadata().file_metadata().num_rows(),
            0
        );
    }
}
