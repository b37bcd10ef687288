//! The packed rows of the log, taken apart, and how a row of any query becomes a struct.

pub(crate) mod attempt;
pub(crate) mod completion;
pub(crate) mod submission;

/// Reads a struct from the columns that have the names of its fields: `from_row!(Row { a, b })`. A
/// column after `else default` may be absent. By hand, because sqlx's derive would build sqlx and its
/// TLS library a second time, for the compiler.
#[doc(hidden)]
#[macro_export]
macro_rules! from_row {
    (
        $row:ident { $($column:ident),* $(,)? }
        $(else default { $($absent:ident),* $(,)? })?
    ) => {
        impl ::sqlx::FromRow<'_, ::sqlx::postgres::PgRow> for $row {
            fn from_row(row: &::sqlx::postgres::PgRow) -> Result<Self, ::sqlx::Error> {
                Ok($row {
                    $($column: ::sqlx::Row::try_get(row, stringify!($column))?,)*
                    $($($absent: match ::sqlx::Row::try_get(row, stringify!($absent)) {
                        Err(::sqlx::Error::ColumnNotFound(_)) => Default::default(),
                        value => value?,
                    },)*)?
                })
            }
        }
    };
}
pub(crate) use from_row;
