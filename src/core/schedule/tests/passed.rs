//! Due times that have passed, found from their end, are those that an expansion finds.

use super::super::{DueTime, RuleText, ScheduleText, TimeZones};
use jiff::Timestamp;
use std::time::Duration;

fn schedule(rule: RuleText) -> super::super::Schedule {
    let text = ScheduleText {
        rule,
        time_zone: "Europe/Berlin".to_owned(),
        dst_gap: None,
        dst_fold: None,
        jitter: Duration::ZERO,
        start: String::new(),
        end: String::new(),
        exclude: vec!["12-25".to_owned()],
    };
    text.check(&TimeZones::bundled()).expect("it makes sense")
}

#[test]
fn the_newest_are_told_one_by_one_and_the_others_as_a_range() {
    let rules = [
        RuleText::Cron("*/20 2 * 1-3 *".to_owned()),
        RuleText::Interval {
            every: Duration::from_secs(7_200),
            phase: Duration::from_secs(60),
        },
    ];
    let at = |text: &str| text.parse::<Timestamp>().expect("a time");
    let (from, until) = (at("2026-11-01T00:00:30Z"), at("2027-09-01T00:00:00Z"));
    for rule in rules {
        let schedule = schedule(rule);
        let times = schedule.due_times(from).filter(DueTime::is_due);
        let all: Vec<DueTime> = times.take_while(|time| time.at <= until).collect();
        for most in [1, 5, all.len() - 1, all.len(), all.len() + 1] {
            let passed = schedule.passed(from, until, most);
            let named = all.len().min(most);
            let (before, newest) = all.split_at(all.len() - named);
            assert_eq!(passed.newest, newest);
            let range = passed.earlier.map(|one| (one.first, one.last, one.count));
            let expected = before.first().zip(before.last());
            let expected = expected.map(|(one, last)| (one.at, last.at, before.len()));
            assert_eq!(range, expected, "the newest {most}");
        }
    }
}
