//! A schedule as it is written: what files, calls and the journal hold. It becomes a [`Schedule`]
//! by one reader, so that a text means the same wherever it comes from.

use super::{
    DstFold, DstGap, Exclusion, Interval, Period, Recurrence, Schedule, ScheduleFault,
    ScheduleSettings, TimeZones, Window, settings::EXCLUSIONS,
};
use serde::{Deserialize, Serialize};
use std::{str::FromStr, time::Duration};

/// The longest text of cron fields, in bytes: every minute, hour and day by itself takes less.
const LONGEST_CRON: usize = 1_000;
/// The longest other text, in bytes: a zone, a point, a date, a name. What is wrong with a text is
/// said by repeating it.
const LONGEST_TEXT: usize = 256;

/// A schedule as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduleText {
    /// The rule.
    pub rule: RuleText,
    /// IANA name of its time zone.
    pub time_zone: String,
    /// What becomes of local times that are left out; `None`: as the rule says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_gap: Option<DstGap>,
    /// What becomes of local times that come twice; `None`: as the rule says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_fold: Option<DstFold>,
    /// A job starts up to so long after a due time.
    #[serde(default)]
    pub jitter: Duration,
    /// Nothing is due before; empty: no limit.
    #[serde(default)]
    pub start: String,
    /// Nothing is due then or later; empty: no limit.
    #[serde(default)]
    pub end: String,
    /// Dates on which nothing is due.
    #[serde(default)]
    pub exclude: Vec<String>,
}

/// The rule of a schedule as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleText {
    /// Five fields.
    Cron(String),
    /// At equal distances of elapsed time.
    Interval {
        /// The distance.
        every: Duration,
        /// How much later than its multiples.
        phase: Duration,
    },
    /// Once in each period.
    OncePer {
        /// Which.
        period: Period,
        /// When the window opens; empty: with the period.
        after: String,
        /// When it closes; empty: with the period.
        before: String,
    },
    /// Whenever a run of the job of this name has succeeded.
    After(String),
}

impl ScheduleText {
    /// The schedule, or everything that is wrong with it, by field.
    pub fn check(&self, zones: &TimeZones) -> Result<Schedule, Vec<ScheduleFault>> {
        let mut faults: Vec<ScheduleFault> = self.too_long().collect();
        if !faults.is_empty() {
            return Err(faults);
        }
        let rule = self.rule.parse();
        let rule = rule.map_err(|wrong| faults.extend(wrong)).ok();
        let is_whole = rule.is_some();
        // With a rule that makes no sense, the rest is checked as if it were this one.
        let every_minute = || Recurrence::Cron("* * * * *".parse().expect("it is good"));
        let mut settings = ScheduleSettings {
            time_zone: self.time_zone.clone(),
            dst_gap: self.dst_gap,
            dst_fold: self.dst_fold,
            jitter: self.jitter,
            ..ScheduleSettings::of(rule.unwrap_or_else(every_minute))
        };
        settings.start = optional("start", &self.start, &mut faults);
        settings.end = optional("end", &self.end, &mut faults);
        // One too many is told as such.
        for date in self.exclude.iter().take(EXCLUSIONS + 1) {
            let parsed = date.parse::<Exclusion>();
            let parsed = parsed.map_err(|what| faults.push(fault("exclude", what)));
            settings.exclude.extend(parsed);
        }
        match settings.check(zones) {
            Ok(schedule) if is_whole && faults.is_empty() => return Ok(schedule),
            Ok(_) => {}
            Err(more) => faults.extend(more),
        }
        Err(faults)
    }

    fn too_long(&self) -> impl Iterator<Item = ScheduleFault> {
        let rule = match &self.rule {
            RuleText::Cron(text) => vec![("cron", text, LONGEST_CRON)],
            RuleText::Interval { .. } => vec![],
            RuleText::OncePer { after, before, .. } => vec![
                ("once_per.after", after, LONGEST_TEXT),
                ("once_per.before", before, LONGEST_TEXT),
            ],
            RuleText::After(job) => vec![("after", job, LONGEST_TEXT)],
        };
        let others = [
            ("time_zone", &self.time_zone),
            ("start", &self.start),
            ("end", &self.end),
        ];
        let dates = self.exclude.iter().map(|date| ("exclude", date));
        let others = others.into_iter().chain(dates);
        let others = others.map(|(field, text)| (field, text, LONGEST_TEXT));
        let too_long = rule.into_iter().chain(others);
        let too_long = too_long.filter(|(_, text, most)| text.len() > *most);
        too_long.map(|(field, _, most)| fault(field, format!("must be at most {most} bytes")))
    }

    /// The job that it follows.
    pub fn follows(&self) -> Option<&str> {
        match &self.rule {
            RuleText::After(job) => Some(job),
            _ => None,
        }
    }
}

impl RuleText {
    fn parse(&self) -> Result<Recurrence, Vec<ScheduleFault>> {
        match self {
            RuleText::Cron(text) => {
                let cron = text.parse();
                let cron = cron.map_err(|what: String| vec![fault("cron", what)]);
                cron.map(Recurrence::Cron)
            }
            RuleText::Interval { every, phase } => Ok(Recurrence::Interval(Interval {
                every: *every,
                phase: *phase,
            })),
            RuleText::OncePer {
                period,
                after,
                before,
            } => {
                let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
                let (after, before) = (given(after), given(before));
                Window::parse(*period, after.as_deref(), before.as_deref()).map(Recurrence::OncePer)
            }
            RuleText::After(job) => Ok(Recurrence::After(job.clone())),
        }
    }
}

fn fault(field: &'static str, what: String) -> ScheduleFault {
    ScheduleFault::new(field, what)
}

fn optional<T: FromStr<Err = String>>(
    field: &'static str,
    text: &str,
    faults: &mut Vec<ScheduleFault>,
) -> Option<T> {
    if text.is_empty() {
        return None;
    }
    let parsed = text.parse();
    parsed.map_err(|what| faults.push(fault(field, what))).ok()
}
