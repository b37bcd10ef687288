//! Decodes the packed rows of the log, and reads the row of any query into a struct.

pub(crate) mod attempt;
mod cautious_claim;
pub(crate) mod completion;
pub(crate) mod ends;
pub(crate) mod halt_failures;
pub(crate) mod job;
pub(crate) mod job_steps;
pub(crate) mod label;
pub(crate) mod resource;
pub(crate) mod settings;
pub(crate) mod submission;
pub(crate) mod target_pause;

/// Reads a struct from the columns named like its fields: `from_row!(Row { a, b })`. A column after
/// `else default` may be absent. Used instead of sqlx's derive, which compiles sqlx and its TLS
/// library a second time, for the host.
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
