//! Arrays of different lengths, one per row, sent as one flat array and the start of each row's
//! part.
//!
//! The statement cuts them apart again. A row whose elements are all the default has no part, and
//! its column is null.

use super::row_count::Rows;
use crate::journal::encoding::{Element, Flat};
use sqlx::{Arguments, error::BoxDynError, postgres::PgArguments};

/// One ragged column of all rows of a batch.
pub(super) struct Ragged<T> {
    flat: Vec<T>,
    /// From 1; 0: no part. Not null, because Postgres finds an element in constant time only in an
    /// array without nulls.
    starts: Vec<i32>,
    open: usize,
}

impl<T> Default for Ragged<T> {
    fn default() -> Self {
        Ragged {
            flat: Vec::new(),
            starts: Vec::new(),
            open: 0,
        }
    }
}

impl<T: Element + PartialEq> Ragged<T> {
    /// Adds an element to the open row.
    pub(super) fn push(&mut self, value: T) {
        self.flat.push(value);
    }

    pub(super) fn repeat(&mut self, value: T, count: u32) {
        self.flat.resize(self.flat.len() + count as usize, value);
    }

    pub(super) fn extend(&mut self, values: impl Iterator<Item = T>) {
        self.flat.extend(values);
    }

    /// The elements of the open row.
    pub(super) fn row(&self) -> &[T] {
        &self.flat[self.open..]
    }

    /// Ends the row; without `keep` its column is null.
    pub(super) fn end_row(&mut self, keep: bool) {
        if keep {
            self.starts.push(self.open as i32 + 1);
            self.open = self.flat.len();
        } else {
            self.starts.push(0);
            self.flat.truncate(self.open);
        }
    }

    /// Ends the row; null when every element is `default`.
    pub(super) fn end_row_unless(&mut self, default: T) {
        let keep = self.row().iter().any(|value| *value != default);
        self.end_row(keep);
    }

    pub(super) fn clear(&mut self) {
        self.flat.clear();
        self.starts.clear();
        self.open = 0;
    }

    /// Binds the flat array and the starts, of a single row its part or null. When no row has a
    /// part the starts are empty: beyond its end an array yields null.
    pub(super) fn bind(&self, rows: Rows, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        match rows {
            Rows::One if self.starts == [0] => arguments.add(None::<Flat<'_, T>>),
            Rows::One => arguments.add(Flat(&self.flat)),
            _ => {
                arguments.add(Flat(&self.flat))?;
                arguments.add(Flat(if self.flat.is_empty() {
                    &[]
                } else {
                    self.starts.as_slice()
                }))
            }
        }
    }
}
