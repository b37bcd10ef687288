//! What is said of a schedule, and whether it makes sense.

use super::{
    DstFold, DstGap, Schedule, cron::Cron, exclusion::Exclusion, fault::ScheduleFault,
    interval::Interval, moment::Moment, window::Window, zone::TimeZones,
};
use jiff::Timestamp;
use std::time::Duration;

/// The rule of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recurrence {
    /// At the local times that an expression names.
    Cron(Cron),
    /// At equal distances in elapsed time.
    Interval(Interval),
    /// Once in each period, inside a window.
    OncePer(Window),
    /// Whenever a run of the job of this name has succeeded. It has no due times of its own.
    After(String),
}

/// What is said of a schedule.
#[derive(Clone, Debug)]
pub struct ScheduleSettings {
    /// The rule.
    pub recurrence: Recurrence,
    /// IANA name of the zone in which local times, periods and dates count.
    pub time_zone: String,
    /// `None`: [`DstGap::Skip`] for cron in every hour, else [`DstGap::NextValid`].
    pub dst_gap: Option<DstGap>,
    /// `None`: [`DstFold::Both`] for cron in every hour, else [`DstFold::First`].
    pub dst_fold: Option<DstFold>,
    /// A job starts up to so long after a due time: at most a day, and less than an interval.
    pub jitter: Duration,
    /// Nothing is due before.
    pub start: Option<Moment>,
    /// Nothing is due then or later.
    pub end: Option<Moment>,
    /// Dates on which nothing is due.
    pub exclude: Vec<Exclusion>,
}

/// Dates and spans of dates that a schedule may exclude.
pub(super) const EXCLUSIONS: usize = 1000;
const LONGEST_JITTER: Duration = Duration::from_secs(86_400);

impl ScheduleSettings {
    /// Only a rule, in UTC.
    pub fn of(recurrence: Recurrence) -> Self {
        ScheduleSettings {
            recurrence,
            time_zone: "UTC".to_owned(),
            dst_gap: None,
            dst_fold: None,
            jitter: Duration::ZERO,
            start: None,
            end: None,
            exclude: Vec::new(),
        }
    }

    /// The schedule, or everything that is wrong with it.
    pub fn check(self, zones: &TimeZones) -> Result<Schedule, Vec<ScheduleFault>> {
        let mut faults = self.faults();
        let zone = zones.zone(&self.time_zone);
        let zone = zone.map_err(|what| faults.push(ScheduleFault::new("time_zone", what)));
        let Ok(zone) = zone else {
            return Err(faults);
        };
        let is_every_hour = match &self.recurrence {
            Recurrence::Cron(cron) => cron.is_every_hour(),
            _ => false,
        };
        let (gap, fold) = match is_every_hour {
            true => (DstGap::Skip, DstFold::Both),
            false => (DstGap::NextValid, DstFold::First),
        };
        let resolve = |moment: Option<Moment>| moment.map(|moment| moment.resolve(&zone));
        let schedule = Schedule {
            dst_gap: self.dst_gap.unwrap_or(gap),
            dst_fold: self.dst_fold.unwrap_or(fold),
            jitter: self.jitter,
            start: resolve(self.start),
            end: resolve(self.end),
            exclude: self.exclude,
            recurrence: self.recurrence,
            zone,
        };
        if faults.is_empty() {
            faults.extend(schedule.never_due());
        }
        match faults.is_empty() {
            true => Ok(schedule),
            false => Err(faults),
        }
    }

    fn faults(&self) -> Vec<ScheduleFault> {
        let mut faults = match &self.recurrence {
            Recurrence::Interval(interval) => interval.faults(),
            _ => Vec::new(),
        };
        let mut fault = |field, what: String| faults.push(ScheduleFault::new(field, what));
        let most = match &self.recurrence {
            Recurrence::Interval(interval) => {
                interval.every.saturating_sub(Duration::from_millis(1))
            }
            _ => LONGEST_JITTER,
        };
        if self.jitter > most.min(LONGEST_JITTER) {
            let what = "must be at most a day, and shorter than the interval if there is one";
            fault("jitter", what.to_owned());
        }
        if self.exclude.len() > EXCLUSIONS {
            fault("exclude", format!("at most {EXCLUSIONS}: write spans"));
        }
        for (field, what) in self.unused() {
            fault(field, what.to_owned());
        }
        faults
    }

    /// Fields that would have no effect, or one that the rule excludes.
    fn unused(&self) -> Vec<(&'static str, &'static str)> {
        let gap = ("dst_gap", self.dst_gap.is_some());
        let fold = ("dst_fold", self.dst_fold.is_some());
        let own = [
            ("jitter", !self.jitter.is_zero()),
            ("start", self.start.is_some()),
            ("end", self.end.is_some()),
            ("exclude", !self.exclude.is_empty()),
        ];
        let (fields, what) = match &self.recurrence {
            Recurrence::Cron(_) => return Vec::new(),
            Recurrence::Interval(_) => (
                vec![gap, fold],
                "an interval counts elapsed time, which changes of the clocks do not touch: \
                 leave it out",
            ),
            Recurrence::OncePer(_) => (
                vec![
                    ("dst_gap", self.dst_gap == Some(DstGap::Skip)),
                    ("dst_fold", self.dst_fold == Some(DstFold::Both)),
                ],
                "once per period means in every period, and once: leave it out",
            ),
            Recurrence::After(_) => (
                [gap, fold].into_iter().chain(own).collect(),
                "a job that follows another one has no due times of its own: leave it out, or \
                 say it of that job",
            ),
        };
        let given = fields.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(field, _)| (field, what)).collect()
    }
}

impl Schedule {
    /// Nothing is due between the start and the end, or at all.
    fn never_due(&self) -> Option<ScheduleFault> {
        let (start, end) = (self.start.unwrap_or(Timestamp::UNIX_EPOCH), self.end);
        if end.is_some_and(|end| end <= start) {
            return Some(ScheduleFault::new("end", "must be later than `start`"));
        }
        let is_after = matches!(self.recurrence, Recurrence::After(_));
        let is_due = is_after || self.due_times(start).any(|time| time.is_due());
        let cause = match (self.start.is_some(), end) {
            _ if is_due => return None,
            (true, Some(_)) => "nothing is due between `start` and `end`: move one of them",
            (false, Some(_)) => "nothing is due before it: move it",
            (_, None) => "every due time is excluded: exclude less",
        };
        let field = if end.is_some() { "end" } else { "exclude" };
        Some(ScheduleFault::new(field, format!("never fires: {cause}")))
    }
}
