//! The columns of a table, declared once: the fields a batch fills, the parameters they are bound
//! to and the statement that inserts them all follow from one list.
//!
//! Parameters are bound in the order of the list, and the statement counts them in the same order.

use super::row_count::Rows;
use crate::journal::encoding::{Blobs, Element};
use sqlx::{
    Encode, Postgres, Type,
    error::BoxDynError,
    postgres::{PgArguments, PgHasArrayType},
};

/// A table that the writer inserts into.
pub(super) struct Table {
    pub name: &'static str,
    pub columns: &'static [Column],
}

/// One column, and how the statement takes its values from the parameters.
pub(super) struct Column {
    pub name: &'static str,
    /// Type of a value, or of one element of its array.
    pub sql_type: &'static str,
    /// What its value is cast to, as `::type`, or nothing.
    pub cast: &'static str,
    pub form: Form,
    /// Null in nearly all batches: only statements of the other shapes have it.
    pub rare: bool,
}

/// How the statement for many rows finds the value of each row.
#[derive(Clone, Copy)]
pub(super) enum Form {
    /// By subscript in an array without nulls, whose elements have a fixed length.
    Picked,
    /// The same; -1 stands for null.
    PickedOrNull,
    /// The same, of many rows only, and no column of the table: how many elements others have.
    Length,
    /// By `unnest`, which costs a tuple store: may be null, or has no fixed length.
    Unnested,
    /// An array for each row, as long as this column or [`Form::Length`] says.
    Array { length: &'static str },
}

/// The values of a column in all rows of a batch.
pub(super) trait Values {
    const TYPE: &'static str;
    const CAST: &'static str = "";
    const FORM: Form;

    /// Binds them as one parameter; as none if the statement for so many rows has none.
    fn bind(&self, rows: Rows, arguments: &mut PgArguments) -> Result<(), BoxDynError>;

    fn clear(&mut self);
}

/// Numbers of which -1 stands for null.
#[derive(Default)]
pub(super) struct OrNull(pub Vec<i64>);

/// How many elements the arrays of each row have.
#[derive(Default)]
pub(super) struct Lengths(pub Vec<i32>);

impl Column {
    /// The column `name` with values of this kind.
    pub(super) const fn of<V: Values>(name: &'static str) -> Self {
        Column {
            name,
            sql_type: V::TYPE,
            cast: V::CAST,
            form: V::FORM,
            rare: false,
        }
    }

    /// The column `name`, an array for each row.
    pub(super) const fn array<T: Element>(name: &'static str, length: &'static str) -> Self {
        Column {
            name,
            sql_type: T::NAME,
            cast: "",
            form: Form::Array { length },
            rare: false,
        }
    }

    /// The same column, which few batches have.
    pub(super) const fn rare(self) -> Self {
        Column { rare: true, ..self }
    }
}

impl<T> Values for Vec<T>
where
    T: Element + Type<Postgres> + for<'q> Encode<'q, Postgres>,
{
    const TYPE: &'static str = T::NAME;
    const FORM: Form = Form::Picked;

    fn bind(&self, rows: Rows, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        rows.bind(self, arguments)
    }

    fn clear(&mut self) {
        self.clear();
    }
}

impl<T> Values for Vec<Option<T>>
where
    T: Element + Type<Postgres> + PgHasArrayType + for<'q> Encode<'q, Postgres>,
{
    const TYPE: &'static str = T::NAME;
    const FORM: Form = Form::Unnested;

    fn bind(&self, rows: Rows, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        rows.bind_nullable(self, arguments)
    }

    fn clear(&mut self) {
        self.clear();
    }
}

impl Values for Blobs {
    const TYPE: &'static str = "bytea";
    const FORM: Form = Form::Unnested;

    fn bind(&self, rows: Rows, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        rows.bind_blobs(self, arguments)
    }

    fn clear(&mut self) {
        self.clear();
    }
}

impl Values for OrNull {
    const TYPE: &'static str = i64::NAME;
    const FORM: Form = Form::PickedOrNull;

    fn bind(&self, rows: Rows, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        rows.bind(&self.0, arguments)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

impl Values for Lengths {
    const TYPE: &'static str = i32::NAME;
    const FORM: Form = Form::Length;

    fn bind(&self, rows: Rows, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        match rows {
            Rows::Many => rows.bind(&self.0, arguments),
            _ => Ok(()),
        }
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Declares the columns of a table: `struct Name of "table" { column: Values, … }`, then for each
/// length a list of arrays, `per length { column: element, … }`, and last those arrays that few
/// batches have, `rare per length { … }`.
macro_rules! columns {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident of $table:literal { $($column:ident: $values:ty,)* }
        $(per $length:ident { $($array:ident: $element:ty,)* })*
        $(rare per $rare_length:ident { $($rare:ident: $rare_element:ty,)* })?
    ) => {
        $(#[$meta])*
        #[derive(Default)]
        $vis struct $name {
            $($column: $values,)*
            $($($array: $crate::journal::append::flat_arrays::Ragged<$element>,)*)*
            $($($rare: $crate::journal::append::flat_arrays::Ragged<$rare_element>,)*)?
        }

        impl $name {
            pub(super) const TABLE: $crate::journal::append::columns::Table =
                $crate::journal::append::columns::Table {
                    name: $table,
                    columns: &[
                        $($crate::journal::append::columns::Column::of::<$values>(
                            stringify!($column)
                        ),)*
                        $($($crate::journal::append::columns::Column::array::<$element>(
                            stringify!($array),
                            stringify!($length)
                        ),)*)*
                        $($($crate::journal::append::columns::Column::array::<$rare_element>(
                            stringify!($rare),
                            stringify!($rare_length)
                        ).rare(),)*)?
                    ],
                };

            /// Binds a parameter or two for each column of [`Self::TABLE`], rare ones if the
            /// statement has them.
            pub(super) fn bind(
                &self,
                rows: $crate::journal::append::row_count::Rows,
                rare: bool,
                arguments: &mut ::sqlx::postgres::PgArguments,
            ) -> Result<(), ::sqlx::error::BoxDynError> {
                use $crate::journal::append::columns::Values;
                $(Values::bind(&self.$column, rows, arguments)?;)*
                $($(self.$array.bind(rows, arguments)?;)*)*
                if rare {
                    $($(self.$rare.bind(rows, arguments)?;)*)?
                }
                Ok(())
            }

            /// Forgets all rows.
            pub(super) fn clear(&mut self) {
                use $crate::journal::append::columns::Values;
                $(Values::clear(&mut self.$column);)*
                $($(self.$array.clear();)*)*
                $($(self.$rare.clear();)*)?
            }
        }
    };
}
pub(super) use columns;
