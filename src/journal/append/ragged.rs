//! Arrays of different lengths, one per row, sent as one flat array and the place where each row's part starts; the
//! statement cuts them out again. A row whose elements are all the default has no part, and its column is null.

use super::rows::Rows;
use crate::journal::encoding::{Element, Flat};
use sqlx::{Arguments, error::BoxDynError, postgres::PgArguments};

/// One ragged column of all rows of a batch.
pub(super) struct Ragged<T> {
    flat: Vec<T>,
    /// From 1; 0: no part. Not null: Postgres finds an element at once only in an array without nulls.
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
    /// Adds an element to the row under way.
    pub(super) fn push(&mut self, value: T) {
        self.flat.push(value);
    }

    /// Adds an element `count` times.
    pub(super) fn repeat(&mut self, value: T, count: u32) {
        self.flat.resize(self.flat.len() + count as usize, value);
    }

    /// Adds elements.
    pub(super) fn extend(&mut self, values: impl Iterator<Item = T>) {
        self.flat.extend(values);
    }

    /// The elements of the row under way.
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

    /// Forgets all rows.
    pub(super) fn clear(&mut self) {
        self.flat.clear();
        self.starts.clear();
        self.open = 0;
    }

    /// Binds the flat array and the starts; no starts when no row has a part: beyond its end an
    /// array yields null. Of a single row: its part, or null.
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
