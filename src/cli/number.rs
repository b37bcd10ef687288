//! Numbers as values of options, and what is said of a value that is none.

use std::{
    fmt::Display,
    ops::{Bound, RangeBounds, RangeInclusive},
    str::FromStr,
};

/// What reads a whole number of this range.
pub(super) fn whole<T>(
    range: impl RangeBounds<T> + Clone + Send + Sync + 'static,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: FromStr + PartialOrd + Display,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| expected(&range))
    }
}

/// What reads a number of this range that may have a fraction.
pub(super) fn decimal(
    range: RangeInclusive<f64>,
) -> impl Fn(&str) -> Result<f64, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            format!("write a number from {least} to {most}, like 2 or 0.5")
        })
    }
}

fn expected<T: Display>(range: &impl RangeBounds<T>) -> String {
    let (Bound::Included(least) | Bound::Excluded(least)) = range.start_bound() else {
        return "write a whole number".to_owned();
    };
    match range.end_bound() {
        Bound::Included(most) => format!("write a whole number from {least} to {most}"),
        Bound::Excluded(most) => format!("write a whole number from {least}, less than {most}"),
        Bound::Unbounded => format!("write a whole number, {least} or more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_of_the_range_is_answered_by_the_range() {
        let least = whole::<i32>(1..);
        let between = whole::<i64>(0..=9);
        assert_eq!((least("7"), between("9")), (Ok(7), Ok(9)));
        for wrong in ["0", "-1", "x", "", "1.5", "99999999999"] {
            let said = least(wrong).expect_err(wrong);
            assert_eq!(said, "write a whole number, 1 or more");
        }
        let weight = decimal(0.01..=1000.0);
        assert_eq!(weight("0.5"), Ok(0.5));
        for wrong in ["0", "-1", "x", "NaN", "1001", "inf"] {
            let said = weight(wrong).expect_err(wrong);
            assert_eq!(said, "write a number from 0.01 to 1000, like 2 or 0.5");
        }
        let said = between("10").expect_err("too many");
        assert_eq!(said, "write a whole number from 0 to 9");
    }
}
