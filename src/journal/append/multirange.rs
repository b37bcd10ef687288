//! Values of an `int8multirange`, as text.

use super::{
    columns::{Form, Values},
    row_count::Rows,
};
use sqlx::{Arguments, error::BoxDynError, postgres::PgArguments};
use std::fmt::Write;

/// One of each row.
#[derive(Default)]
pub(super) struct Multiranges(Vec<String>);

impl Multiranges {
    /// Adds a row of inclusive ranges.
    pub(super) fn push(&mut self, ranges: impl Iterator<Item = (i64, i64)>) {
        let mut text = String::from("{");
        for (index, (first, last)) in ranges.enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let _ = write!(text, "{comma}[{first},{last}]");
        }
        text.push('}');
        self.0.push(text);
    }
}

impl Values for Multiranges {
    const TYPE: &'static str = "text";
    const CAST: &'static str = "::int8multirange";
    const FORM: Form = Form::Unnested;

    fn bind(&self, _: Rows, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        arguments.add(&self.0)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_a_literal() {
        let mut rows = Multiranges::default();
        rows.push([].into_iter());
        rows.push([(1, 1), (7, 9)].into_iter());
        assert_eq!(rows.0, ["{}", "{[1,1],[7,9]}"]);
    }
}
