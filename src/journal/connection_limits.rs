//! The limits of a connection by its duty, in one place: how long a statement may run, how long an
//! answer is waited for, and what else the server is asked for.
//!
//! No statement of the journal runs without a timeout, and no answer is waited for without a limit:
//! a network that swallows bytes would otherwise hold its duty up for as long as the kernel tries.

use sqlx::{ConnectOptions, postgres::PgConnectOptions};
use std::time::Duration;

/// What a connection is for; decides its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    /// Appends batches.
    Writer,
    /// Renews the lease.
    Heartbeat,
    /// Takes the shard over and hands it over.
    Ownership,
    /// Answers handlers of RPCs, and keeps the register of sessions.
    Reader,
    /// Reads everything that is unfinished.
    Recovery,
    /// Makes the next partitions of batch numbers.
    Batches,
    /// Makes days, and drops old ones.
    Maintenance,
    /// Checks the server when a program starts, migrates, and makes the first days.
    Start,
}

impl Duty {
    /// What its connections are called in `pg_stat_activity`.
    fn name(self) -> &'static str {
        match self {
            Duty::Writer => "rallypoint journal writer",
            Duty::Heartbeat => "rallypoint journal heartbeat",
            Duty::Ownership => "rallypoint journal ownership",
            Duty::Reader => "rallypoint journal reader",
            Duty::Recovery => "rallypoint journal recovery",
            Duty::Batches => "rallypoint journal batches",
            Duty::Maintenance => "rallypoint journal maintenance",
            Duty::Start => "rallypoint journal start",
        }
    }

    /// How long opening a connection may take.
    pub(super) fn connect_timeout(self) -> Duration {
        Duration::from_secs(match self {
            // Nobody waits for it, except a server that starts, and that had better wait.
            Duty::Maintenance | Duty::Start => 30,
            _ => 4,
        })
    }

    /// How long the server lets a statement run.
    pub(super) fn statement_timeout(self) -> Duration {
        Duration::from_secs(match self {
            Duty::Reader | Duty::Ownership => 5,
            Duty::Heartbeat | Duty::Batches => 9,
            Duty::Writer => 30,
            Duty::Maintenance | Duty::Start => 300,
            Duty::Recovery => 600,
        })
    }

    /// How long an answer, or the next row of one, is waited for: at first, and when earlier ones
    /// did not come in time. What the shard cannot go on without begins with less than the usual
    /// lease, so that a silent connection is given up within it; a recovery with more than a claim,
    /// because it sorts much before its first row, and would begin again.
    pub(super) fn answer_timeout(self) -> AnswerTimeout {
        let most = self.statement_timeout() + SERVER_FIRST;
        let least = match self {
            Duty::Writer => Duration::from_secs(4),
            Duty::Recovery => Duration::from_secs(2),
            Duty::Ownership => Duration::from_millis(600),
            // A server is not ready meanwhile, and begins again on another connection.
            Duty::Start => Duration::from_secs(30),
            _ => most,
        };
        AnswerTimeout::new(least, most)
    }

    /// Options of a connection for this duty.
    pub(super) fn options(self, options: &PgConnectOptions) -> PgConnectOptions {
        let statement_timeout = format!("{}s", self.statement_timeout().as_secs());
        let options = options
            .clone()
            .application_name(self.name())
            .disable_statement_logging()
            .options([
                ("statement_timeout", statement_timeout.as_str()),
                ("idle_in_transaction_session_timeout", "15s"),
                ("synchronous_commit", "on"),
                // Keeps notices about tables that exist already out of the log.
                ("client_min_messages", "warning"),
                ("client_connection_check_interval", "5s"),
                ("tcp_keepalives_idle", "10"),
                ("tcp_keepalives_interval", "5"),
                ("tcp_keepalives_count", "3"),
                ("timezone", "UTC"),
            ]);
        match self {
            Duty::Writer => {
                options.options([("plan_cache_mode", "force_generic_plan"), ("jit", "off")])
            }
            // Lookups by key, however wrong the statistics of a young table are.
            Duty::Recovery => options.options([
                ("jit", "off"),
                ("enable_hashjoin", "off"),
                ("enable_mergejoin", "off"),
            ]),
            // Every ordered read follows an index; a sort would read all rows of a handle first.
            Duty::Reader => options.options([("jit", "off"), ("enable_sort", "off")]),
            Duty::Heartbeat => options.options([("jit", "off")]),
            // Heartbeats wait for what a claim has locked while it waits for an append.
            Duty::Ownership => options.options([("jit", "off"), ("lock_timeout", "300ms")]),
            // Lookups by key in tables that may never have been analyzed; short waits for locks.
            Duty::Batches | Duty::Maintenance | Duty::Start => options.options([
                ("jit", "off"),
                ("enable_hashjoin", "off"),
                ("enable_mergejoin", "off"),
                ("enable_seqscan", "off"),
                ("lock_timeout", "2s"),
            ]),
        }
    }
}

/// By how much the server's own timeout comes first: its word says that nothing was done.
const SERVER_FIRST: Duration = Duration::from_secs(1);

/// How long an answer is waited for. Every answer that did not come in time doubles it, up to a
/// bound, so that what takes longer than expected is not begun again and again; one that comes
/// resets it.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerTimeout {
    least: Duration,
    most: Duration,
    lapses: u32,
}

impl AnswerTimeout {
    pub(super) fn new(least: Duration, most: Duration) -> Self {
        AnswerTimeout {
            least,
            most,
            lapses: 0,
        }
    }

    pub(super) fn limit(&self) -> Duration {
        let doubled = self.least.saturating_mul(1 << self.lapses.min(16));
        doubled.min(self.most)
    }

    /// Learns whether the last answer came in time.
    pub(super) fn note(&mut self, in_time: bool) {
        self.lapses = if in_time { 0 } else { self.lapses + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_grows_with_every_lapse_and_is_back_after_an_answer() {
        let seconds = Duration::from_secs;
        let mut timeout = AnswerTimeout::new(seconds(4), seconds(30));
        let mut limits = Vec::new();
        for in_time in [false, false, false, false, true] {
            limits.push(timeout.limit());
            timeout.note(in_time);
        }
        limits.push(timeout.limit());
        assert_eq!(limits, [4, 8, 16, 30, 30, 4].map(seconds));
    }

    #[test]
    fn the_server_gives_a_statement_up_before_its_last_answer_is_given_up() {
        for duty in [
            Duty::Writer,
            Duty::Reader,
            Duty::Ownership,
            Duty::Recovery,
            Duty::Batches,
            Duty::Start,
        ] {
            assert!(
                duty.answer_timeout().most > duty.statement_timeout(),
                "{duty:?}"
            );
        }
    }
}
