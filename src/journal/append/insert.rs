//! The insert of a table's rows, put together from its columns: of a single row as plain values, of
//! many rows from arrays.
//!
//! Most batches have one row per table, which costs a fifth less as plain values. Of many rows only
//! what may be null or has no fixed length is unnested; the rest is picked by subscript, because
//! each unnested array costs a tuple store of its own. Of the parameters of every statement it uses
//! the first, the shard, and the fourth, the day.

use super::{
    columns::{Column, Form, Table},
    row_count::Rows,
};
use crate::journal::day_partitions;

/// The parts of the statement, as columns are added.
#[derive(Default)]
struct Parts {
    /// Parameters so far, those of the whole statement included.
    parameters: usize,
    names: Vec<String>,
    values: Vec<String>,
    picked: Vec<String>,
    unnested: Vec<String>,
    unnested_names: Vec<&'static str>,
}

impl Table {
    /// The insert for `rows` (not none), perhaps with the rare columns, whose parameters follow
    /// `before` others; and how many parameters there are then.
    pub(super) fn insert(&self, rows: Rows, rare: bool, before: usize) -> (String, usize) {
        let mut parts = Parts {
            parameters: before,
            ..Parts::default()
        };
        parts.add("shard", "$1".to_owned());
        if day_partitions::TABLES.contains(&self.name) {
            parts.add("day", "$4".to_owned());
        }
        let source = match rows {
            Rows::One => self.one(rare, &mut parts),
            _ => self.many(rare, &mut parts),
        };
        let (names, values) = (parts.names.join(", "), parts.values.join(",\n    "));
        let sql = format!(
            "\ninsert into {} ({names})\nselect {values}{source}",
            self.name
        );
        (sql, parts.parameters)
    }

    fn columns(&self, rare: bool) -> impl Iterator<Item = &'static Column> {
        let columns = self.columns.iter();
        columns.filter(move |column| rare || !column.rare)
    }

    fn one(&self, rare: bool, parts: &mut Parts) -> String {
        for column in self.columns(rare) {
            let value = match column.form {
                Form::Length => continue,
                Form::PickedOrNull => {
                    format!("nullif({}::{}, -1)", parts.parameter(), column.sql_type)
                }
                _ => format!("{}{}", parts.parameter(), column.cast),
            };
            parts.add(column.name, value);
        }
        String::new()
    }

    fn many(&self, rare: bool, parts: &mut Parts) -> String {
        for column in self.columns(rare) {
            let (name, cast) = (column.name, column.cast);
            let array = format!("{}::{}[]", parts.parameter(), column.sql_type);
            let value = match column.form {
                Form::Picked => parts.pick(name, format!("({array})[b.i]")),
                Form::PickedOrNull => parts.pick(name, format!("nullif(({array})[b.i], -1)")),
                Form::Length => {
                    parts.pick(name, format!("({array})[b.i]"));
                    continue;
                }
                Form::Unnested => parts.unnest(name, array),
                Form::Array { length } => {
                    let starts = parts.parameter();
                    let start = parts.pick(name, format!("nullif(({starts}::int4[])[b.i], 0)"));
                    format!("({array})[{start} : {start} + u.{length} - 1]")
                }
            };
            parts.add(name, format!("{value}{cast}"));
        }
        let arrays = parts.unnested.join(", ");
        let names = parts.unnested_names.join(", ");
        let picked = parts.picked.join(",\n        ");
        let unnest = format!("unnest({arrays}) with ordinality as b ({names}, i)");
        format!("\nfrom {unnest}\ncross join lateral (\n    select {picked}\n) as u")
    }
}

impl Parts {
    fn add(&mut self, name: &str, value: String) {
        self.names.push(name.to_owned());
        self.values.push(value);
    }

    fn parameter(&mut self) -> String {
        self.parameters += 1;
        format!("${}", self.parameters)
    }

    fn pick(&mut self, name: &str, value: String) -> String {
        self.picked.push(format!("{value} as {name}"));
        format!("u.{name}")
    }

    fn unnest(&mut self, name: &'static str, array: String) -> String {
        self.unnested.push(array);
        self.unnested_names.push(name);
        format!("b.{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table = Table {
        name: "batch",
        columns: &[
            Column::of::<Vec<i32>>("count"),
            Column::of::<Vec<Option<i64>>>("at"),
            Column::array::<i16>("kind", "count"),
            Column::array::<i64>("epoch", "count").rare(),
        ],
    };

    #[test]
    fn a_single_row_is_inserted_as_plain_values() {
        let (sql, parameters) = TABLE.insert(Rows::One, false, 4);
        let words: Vec<&str> = sql.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "insert into batch (shard, count, at, kind) select $1, $5, $6, $7"
        );
        assert_eq!(parameters, 7);
    }

    #[test]
    fn many_rows_are_picked_unnested_and_cut_from_arrays() {
        let (sql, parameters) = TABLE.insert(Rows::Many, false, 4);
        let words: Vec<&str> = sql.split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "insert into batch (shard, count, at, kind) \
             select $1, u.count, b.at, ($7::int2[])[u.kind : u.kind + u.count - 1] \
             from unnest($6::int8[]) with ordinality as b (at, i) \
             cross join lateral ( \
             select ($5::int4[])[b.i] as count, nullif(($8::int4[])[b.i], 0) as kind \
             ) as u"
        );
        assert_eq!(parameters, 8);
    }
    #[test]
    fn a_rare_column_is_left_out_unless_it_is_asked_for() {
        let (sql, parameters) = TABLE.insert(Rows::One, true, 4);
        assert!(sql.contains("(shard, count, at, kind, epoch)"), "{sql}");
        assert_eq!(parameters, 8);
        let (_, parameters) = TABLE.insert(Rows::Many, true, 4);
        assert_eq!(parameters, 10);
    }
}
