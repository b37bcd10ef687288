//! GetScheduler: opening a scheduler, unless its call was made before or its name finds one.

use crate::core::{
    Caller, Handle, Open, Reject, Reply, Request, SchedulerImage, SchedulerState, Shard, Time,
    Turn,
    fairness::{fair_share::FairShare, slot_kinds::NamespaceId},
    model::limits::Limits,
    scheduler::Scheduler,
};

impl Shard {
    pub(crate) fn open(
        &mut self,
        turn: &mut Turn,
        limits: &Limits,
        caller: &Caller,
        handle: Handle,
        open: &Open,
    ) -> Reply {
        self.forget_requests(turn.now);
        let namespace = self.fair.namespace(&caller.namespace);
        if let Some(request) = open.request
            && let Some(reply) = self.opened_before(turn.now, namespace, request)
        {
            return reply;
        }
        if let Some(naming) = &open.naming
            && let Some(reply) = self.find_by_name(turn, namespace, naming)
        {
            return reply;
        }
        if self.schedulers.get(handle).is_some() {
            return Reply::Rejected(Reject::RequestIdReused);
        }
        if let Err(over) = self.quotas.may_open(namespace, limits) {
            return Shard::limit_reached(&caller.namespace, over);
        }
        let image = new_image(turn.now, caller, handle, open);
        self.create(turn, image);
        let scheduler = self.schedulers.expect(handle);
        Reply::Scheduler(Box::new(scheduler.view()))
    }

    /// The reply to a repeated call.
    fn opened_before(&self, now: Time, namespace: NamespaceId, request: Request) -> Option<Reply> {
        let known = self.opened.in_memory(namespace, request.id);
        let scheduler = known.and_then(|handle| self.schedulers.get(handle));
        let Some(scheduler) =
            scheduler.filter(|known| known.image.opened_at >= self.memory.since(now))
        else {
            // The id may have been used again since, for one that has left memory.
            let has_left = self.opened.has_left(namespace, request.id);
            return has_left.then_some(Reply::Rejected(Reject::UnknownHandle));
        };
        let same = scheduler.image.request == Some(request);
        Some(match same {
            true => Reply::Scheduler(Box::new(scheduler.view())),
            false => Reply::Rejected(Reject::RequestIdReused),
        })
    }

    /// Takes a new scheduler in, whoever opens it.
    fn create(&mut self, turn: &mut Turn, image: SchedulerImage) {
        let handle = image.handle;
        let namespace = self.fair.namespace(&image.namespace);
        self.quotas.opened(namespace);
        if let Some(request) = image.request {
            self.opened.insert(namespace, request.id, handle);
        }
        self.names.hold(namespace, &image);
        let image = self.interner.share(image);
        let share = FairShare::new(handle, namespace, image.settings.weight);
        self.schedulers
            .insert(Scheduler::new(image, share, turn.now));
        self.checkpoint(turn, handle);
        self.note_idle(turn.now, handle);
    }
}

fn new_image(now: Time, caller: &Caller, handle: Handle, open: &Open) -> SchedulerImage {
    SchedulerImage {
        handle,
        name: open.naming.as_ref().map(|naming| naming.name.clone()),
        namespace: caller.namespace.clone(),
        caller: caller.name.clone(),
        request: open.request,
        settings: open.settings.clone(),
        state: SchedulerState::Open,
        release_mode: None,
        paused: false,
        halt: None,
        cancel_rest: None,
        opened_at: now,
        released_at: None,
        checkpoint: Default::default(),
    }
}
