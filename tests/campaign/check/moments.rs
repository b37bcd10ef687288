//! Places marks in time without any clock of a database: marks are numbered in the order in which
//! they are made, and the recorder has drawn numbers from the same sequence at known times.

/// What the recorder knows, in order of the numbers.
#[derive(Default)]
pub(crate) struct Moments(Vec<Moment>);

struct Moment {
    number: i64,
    asked: i64,
    answered: i64,
}

impl Moments {
    /// Numbers are told in their order: one is drawn after the other.
    pub(super) fn add(&mut self, number: i64, asked: i64, answered: i64) {
        self.0.push(Moment {
            number,
            asked,
            answered,
        });
    }

    /// The mark with this number was not made before.
    pub(crate) fn earliest(&self, number: i64) -> i64 {
        let above = self.0.partition_point(|moment| moment.number < number);
        above
            .checked_sub(1)
            .map_or(i64::MIN, |below| self.0[below].asked)
    }

    /// The mark with this number was not made after.
    pub(crate) fn latest(&self, number: i64) -> i64 {
        let above = self.0.partition_point(|moment| moment.number < number);
        self.0.get(above).map_or(i64::MAX, |moment| moment.answered)
    }
}

#[test]
fn a_mark_lies_between_the_moments_around_it() {
    let mut moments = Moments::default();
    moments.add(3, 100, 110);
    moments.add(7, 200, 210);
    let between = |number| (moments.earliest(number), moments.latest(number));
    assert_eq!(between(2), (i64::MIN, 110));
    assert_eq!(between(5), (100, 210));
    assert_eq!(between(9), (200, i64::MAX));
}
