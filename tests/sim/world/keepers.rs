//! What callers do beside their schedulers: they claim resources and keep jobs.

use super::World;
use rallypoint::coordinator::machine::Event;

impl World<'_> {
    pub(super) fn keepers_act(&mut self, events: &mut Vec<Event>) {
        events.extend(self.claimants.act(self.now).map(Event::Command));
        let with_resources = self.claimants.have_defined();
        self.callers.with_resources = with_resources;
        let (keepers, jobs) = (&mut self.job_keepers, &self.journal.oracle.jobs);
        let call = keepers.act(self.now, self.fixtures, with_resources, jobs);
        events.extend(call.map(Event::Command));
    }
}
