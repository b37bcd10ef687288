//! How many rows a batch has for a table: a single row is bound as plain values, many as arrays.

use crate::journal::encoding::{Blobs, Element, Flat};
use sqlx::{
    Arguments, Encode, Postgres, Type,
    error::BoxDynError,
    postgres::{PgArguments, PgHasArrayType},
};

/// Rows for one table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Rows {
    #[default]
    None,
    One,
    Many,
}

impl Rows {
    pub(super) const ALL: [Rows; 3] = [Rows::None, Rows::One, Rows::Many];

    pub(super) fn of(count: usize) -> Self {
        Rows::ALL[count.min(2)]
    }

    pub(super) fn bind<T>(
        self,
        column: &[T],
        arguments: &mut PgArguments,
    ) -> Result<(), BoxDynError>
    where
        T: Element + Type<Postgres> + for<'q> Encode<'q, Postgres>,
    {
        match (self, column) {
            (Rows::One, [only]) => arguments.add(*only),
            _ => arguments.add(Flat(column)),
        }
    }

    pub(super) fn bind_nullable<T>(
        self,
        column: &[Option<T>],
        arguments: &mut PgArguments,
    ) -> Result<(), BoxDynError>
    where
        T: Copy + Type<Postgres> + PgHasArrayType + for<'q> Encode<'q, Postgres>,
    {
        match (self, column) {
            (Rows::One, [only]) => arguments.add(*only),
            _ => arguments.add(column),
        }
    }

    pub(super) fn bind_blobs(
        self,
        column: &Blobs,
        arguments: &mut PgArguments,
    ) -> Result<(), BoxDynError> {
        match self {
            Rows::One => arguments.add(column.only()),
            _ => arguments.add(column),
        }
    }
}
