//! Jobs that follow others: one due time for each successful run of the other one, in the batch in
//! which that succeeds, and no other.

use super::*;

impl Jobs {
    /// Before the batch is taken in.
    pub(super) fn followers_fire(&self, records: &JobRecords) {
        let mut succeeded: BTreeMap<JobNo, usize> = BTreeMap::new();
        let mut followed: BTreeMap<JobNo, usize> = BTreeMap::new();
        for (key, run) in &records.runs {
            let before = self.runs.get(key);
            let had_succeeded = before.is_some_and(|before| before.state == RunState::Succeeded);
            if run.state == RunState::Succeeded && !had_succeeded {
                *succeeded.entry(key.job).or_default() += 1;
            }
            if before.is_none() && run.cause == RunCause::Followed {
                *followed.entry(key.job).or_default() += 1;
            }
        }
        for (no, job) in &self.jobs {
            // Where one of them changes with the batch, it is not known which definition counts.
            let RuleText::After(name) = &job.settings.schedule.rule else {
                let fires = followed.contains_key(no) && !records.jobs.contains_key(no);
                assert!(!fires, "job {}: it follows none", no.0);
                continue;
            };
            let leader = self.present(name);
            let changes = |no: &JobNo| records.jobs.contains_key(no);
            if job.deleted || changes(no) || leader.as_ref().is_none_or(changes) {
                continue;
            }
            let count = |of: &BTreeMap<JobNo, usize>, no: &JobNo| of.get(no).copied().unwrap_or(0);
            let wanted = leader.map_or(0, |leader| count(&succeeded, &leader));
            assert_eq!(
                count(&followed, no),
                wanted,
                "job {}: runs of {name} have succeeded so often",
                no.0
            );
        }
    }

    /// The job that has this name now.
    /// The version of a job by its name.
    pub(crate) fn version(&self, name: &str) -> Option<i64> {
        let no = self.present(name)?;
        Some(self.jobs[&no].version)
    }

    /// Its newest due time that has a row.
    pub(crate) fn newest_due_time(&self, name: &str) -> Option<Time> {
        let no = self.present(name)?;
        let mut all = self.runs.keys().rev();
        all.find(|key| key.job == no).map(|key| key.due)
    }

    pub(super) fn present(&self, name: &str) -> Option<JobNo> {
        let named = |job: &&JobImage| &*job.key.name == name && !job.deleted;
        self.jobs.values().find(named).map(|job| job.no)
    }
}
