//! Values as they travel to and from Postgres in binary: times and days without a calendar crate,
//! flat arrays and byte strings without a copy or an allocation per element.

use crate::core::{Day, Time};
use bytes::Bytes;
use sqlx::{
    Decode, Encode, Postgres, Type,
    encode::IsNull,
    error::BoxDynError,
    postgres::{
        PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef, types::Oid,
    },
};
use uuid::Uuid;

/// 2000-01-01, the epoch of Postgres, in the core's microseconds and days.
const EPOCH_US: i64 = 946_684_800_000_000;
const EPOCH_DAYS: i32 = 10_957;

/// A `timestamptz`, clamped to what Postgres can store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp(pub Time);

/// A `date`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Date(pub Day);

/// An array of numbers or ids.
pub(crate) struct Flat<'a, T>(pub &'a [T]);

/// A `bytea[]`, each row a list of chunks, or null.
#[derive(Default)]
pub(crate) struct Blobs {
    chunks: Vec<Bytes>,
    rows: Vec<Option<u32>>,
}

impl Blobs {
    /// Adds to the open row.
    pub(super) fn chunk(&mut self, bytes: Bytes) {
        self.chunks.push(bytes);
    }

    /// Ends the open row; without `keep` it is null, and must have no chunks.
    pub(super) fn end_row(&mut self, keep: bool) {
        self.rows.push(keep.then_some(self.chunks.len() as u32));
    }

    /// Adds a row of one chunk, or null.
    pub(super) fn row(&mut self, bytes: Option<Bytes>) {
        let keep = bytes.is_some();
        self.chunks.extend(bytes);
        self.end_row(keep);
    }

    /// The only row.
    pub(super) fn only(&self) -> Option<Blob<'_>> {
        let null = self.rows.first().is_none_or(Option::is_none);
        (!null).then_some(Blob(&self.chunks))
    }

    pub(super) fn clear(&mut self) {
        self.chunks.clear();
        self.rows.clear();
    }
}

/// A `bytea` in chunks.
pub(crate) struct Blob<'a>(&'a [Bytes]);

/// An element of a [`Flat`] array.
pub(crate) trait Element: Copy + PgHasArrayType {
    /// Type of the element in Postgres.
    const OID: u32;
    /// Name of that type.
    const NAME: &'static str;
    /// Writes length and value.
    fn write(self, buf: &mut Vec<u8>);
}

macro_rules! number {
    ($number:ty, $oid:literal, $name:literal) => {
        impl Element for $number {
            const OID: u32 = $oid;
            const NAME: &'static str = $name;

            fn write(self, buf: &mut Vec<u8>) {
                const SIZE: usize = size_of::<$number>();
                let mut bytes = [0; 4 + SIZE];
                bytes[..4].copy_from_slice(&(SIZE as i32).to_be_bytes());
                bytes[4..].copy_from_slice(&self.to_be_bytes());
                buf.extend_from_slice(&bytes);
            }
        }
    };
}

number!(i16, 21, "int2");
number!(i32, 23, "int4");
number!(i64, 20, "int8");

impl Element for bool {
    const OID: u32 = 16;
    const NAME: &'static str = "bool";

    fn write(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&1i32.to_be_bytes());
        buf.push(u8::from(self));
    }
}

impl Element for Uuid {
    const OID: u32 = 2950;
    const NAME: &'static str = "uuid";

    fn write(self, buf: &mut Vec<u8>) {
        buf.extend_from_slice(&16i32.to_be_bytes());
        buf.extend_from_slice(self.as_bytes());
    }
}

impl Element for Stamp {
    const OID: u32 = 1184;
    const NAME: &'static str = "timestamptz";

    fn write(self, buf: &mut Vec<u8>) {
        self.micros().write(buf);
    }
}

impl Element for Date {
    const OID: u32 = 1082;
    const NAME: &'static str = "date";

    fn write(self, buf: &mut Vec<u8>) {
        self.days().write(buf);
    }
}

/// Head of a one-dimensional array.
fn array_head(buf: &mut Vec<u8>, has_null: bool, oid: u32, len: usize) {
    buf.extend_from_slice(&1i32.to_be_bytes());
    buf.extend_from_slice(&i32::from(has_null).to_be_bytes());
    buf.extend_from_slice(&oid.to_be_bytes());
    buf.extend_from_slice(&(len as i32).to_be_bytes());
    buf.extend_from_slice(&1i32.to_be_bytes());
}

impl<T: Element> Type<Postgres> for Flat<'_, T> {
    fn type_info() -> PgTypeInfo {
        T::array_type_info()
    }
}

impl<T: Element> Encode<'_, Postgres> for Flat<'_, T> {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buf.reserve(20 + self.0.len() * (4 + size_of::<T>()));
        array_head(buf, false, T::OID, self.0.len());
        self.0.iter().for_each(|value| value.write(buf));
        Ok(IsNull::No)
    }
}

impl Type<Postgres> for Blobs {
    fn type_info() -> PgTypeInfo {
        <Vec<Vec<u8>> as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for Blobs {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        let bytes: usize = self.chunks.iter().map(Bytes::len).sum();
        buf.reserve(20 + self.rows.len() * 4 + bytes);
        array_head(
            buf,
            self.rows.iter().any(Option::is_none),
            17,
            self.rows.len(),
        );
        let mut from = 0;
        for row in &self.rows {
            let Some(to) = row.map(|to| to as usize) else {
                buf.extend_from_slice(&(-1i32).to_be_bytes());
                continue;
            };
            let chunks = &self.chunks[from..to];
            let len: usize = chunks.iter().map(Bytes::len).sum();
            buf.extend_from_slice(&i32::try_from(len)?.to_be_bytes());
            chunks.iter().for_each(|chunk| buf.extend_from_slice(chunk));
            from = to;
        }
        Ok(IsNull::No)
    }
}

impl Type<Postgres> for Blob<'_> {
    fn type_info() -> PgTypeInfo {
        <Vec<u8> as Type<Postgres>>::type_info()
    }
}

impl Encode<'_, Postgres> for Blob<'_> {
    fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        self.0.iter().for_each(|chunk| buf.extend_from_slice(chunk));
        Ok(IsNull::No)
    }
}

impl Stamp {
    fn micros(self) -> i64 {
        // 4713 BC to 294276 AD, as Postgres has it
        (self.0.0.saturating_sub(EPOCH_US))
            .clamp(-211_813_488_000_000_000, 9_223_371_331_199_999_999)
    }
}

impl Date {
    fn days(self) -> i32 {
        self.0.0.saturating_sub(EPOCH_DAYS)
    }
}

macro_rules! scalar {
    ($name:ident, $oid:literal, $array_oid:literal, $encode:ident, $number:ty, $decode:expr) => {
        impl Type<Postgres> for $name {
            fn type_info() -> PgTypeInfo {
                PgTypeInfo::with_oid(Oid($oid))
            }
        }

        impl PgHasArrayType for $name {
            fn array_type_info() -> PgTypeInfo {
                PgTypeInfo::with_oid(Oid($array_oid))
            }
        }

        impl Encode<'_, Postgres> for $name {
            fn encode_by_ref(&self, buf: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
                buf.extend_from_slice(&self.$encode().to_be_bytes());
                Ok(IsNull::No)
            }
        }

        impl Decode<'_, Postgres> for $name {
            fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
                if value.format() != PgValueFormat::Binary {
                    return Err("expected a binary value".into());
                }
                let number = <$number>::from_be_bytes(value.as_bytes()?.try_into()?);
                let decode: fn($number) -> $name = $decode;
                Ok(decode(number))
            }
        }
    };
}

scalar!(Stamp, 1184, 1185, micros, i64, |us| Stamp(Time(
    us.saturating_add(EPOCH_US)
)));
scalar!(Date, 1082, 1182, days, i32, |days| Date(Day(
    days.saturating_add(EPOCH_DAYS)
)));
